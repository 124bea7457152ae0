"""The score of spec 2 §8.2, as it is written; what decides are the rules."""

from __future__ import annotations

from ether.governance.gaps.daily_traffic import DailyTraffic, median_pace
from ether_broker.envelope.views.suggestion import Justification, gap_score

__all__ = ["justification"]


def justification(traffic: DailyTraffic, capability: str, window: range) -> Justification:
    """The ratios of a capability in a window of days, and their score.

    - `rejection_rate`: REJECTED_CAPABILITY and PARTIAL by the delegations that were asked.
    - `latency_penalty_ratio`: its median pace by the usual one of all capabilities; 0.0 where no time is known.
    - `clarification_cycles_ratio`: NEEDS_INPUT and REJECTED_CONTEXT by the delegations that were asked.
    """
    days = traffic.capabilities.get(capability, {})
    counts = [one for day in window for one in days.get(day, {}).values()]
    asked = sum(one.served + one.unserved for one in counts)
    usual, pace = traffic.usual_pace(window.start, window.stop), median_pace(days, window.start, window.stop)
    if not asked:
        return Justification(rejection_rate=0.0, latency_penalty_ratio=0.0, clarification_cycles_ratio=0.0, score=0.0)
    ratios = (
        round(sum(one.unserved + one.refused for one in counts) / asked, 4),
        round(pace / usual, 4) if pace is not None and usual else 0.0,
        round(sum(one.unclear for one in counts) / asked, 4),
    )
    return Justification(
        rejection_rate=ratios[0], latency_penalty_ratio=ratios[1], clarification_cycles_ratio=ratios[2],
        score=round(gap_score(*ratios), 4),
    )  # fmt: skip
