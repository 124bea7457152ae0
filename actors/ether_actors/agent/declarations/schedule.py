"""The schedules of a capability: the agent delegates it to itself, at an interval or by a cron expression."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar

from ether_actors.agent.declarations.class_checks import check_is_new
from ether_broker.errors import InvalidManifest, MissingExtra
from ether_broker.number import is_number

if TYPE_CHECKING:
    from datetime import datetime, tzinfo

__all__ = ["Schedule", "cron", "every", "schedule_of"]

_MARK: Final = "__ether_schedule__"
_LEAST: Final = 0.1
"""Seconds: a node looks at its timers no more often."""
_F = TypeVar("_F", bound=Callable[..., Any])


class Schedule(Protocol):
    """The interface of a schedule."""

    @property
    def is_by_wall(self) -> bool:
        """Whether its times are Unix times; else they are seconds by the node's clock."""
        ...

    @property
    def timeout(self) -> float | None:
        """Seconds that each delegation has; None is the default of the bus."""
        ...

    def due(self, last: float | None, now: float) -> float:
        """Say when it is due next.

        Args:
            last: when it was due last; None: it has not been yet.
            now: the time; what was due meanwhile and was not seen is left out.
        """
        ...


@dataclass(frozen=True, slots=True)
class _Every:
    seconds: float
    timeout: float | None
    at_start: bool
    is_by_wall: bool = False

    def __str__(self) -> str:
        return f"every {self.seconds:g} s"

    def due(self, last: float | None, now: float) -> float:
        if last is None:
            return now if self.at_start else now + self.seconds
        return last + self.seconds * max(1, math.floor((now - last) / self.seconds) + 1)


@dataclass(frozen=True, slots=True)
class _Cron:
    expression: str
    zone: tzinfo
    timeout: float | None
    is_by_wall: bool = True

    def __str__(self) -> str:
        return f"cron {self.expression!r}"

    def due(self, last: float | None, now: float) -> float:
        from datetime import datetime

        after = max(now, last or 0.0)
        begin = datetime.fromtimestamp(after, self.zone)
        if self.is_by_the_hour:
            return float(next(_cronsim()(self.expression, begin)).timestamp())
        by_the_clock = _cronsim()(self.expression, begin.replace(tzinfo=None, fold=0))
        times = (_time_of(shown, self.zone) for shown in by_the_clock)
        return next(time for time in times if time > after)  # what a clock shows twice was due at the first

    @property
    def is_by_the_hour(self) -> bool:
        """Whether it is due within hours, and not at times of the day: a minute or an hour of it begins with `*`."""
        return any(field.startswith("*") for field in self.expression.split()[-5:-3])


def _time_of(shown: datetime, zone: tzinfo) -> float:
    """The Unix time at which a clock first shows a time, or, if it leaves that out, goes past it."""
    from datetime import UTC, timedelta

    time = shown.replace(tzinfo=zone)
    while time.astimezone(UTC).astimezone(zone) != time:  # summer time begins meanwhile
        time += timedelta(minutes=1)
    return time.timestamp()


def every(seconds: float, *, at_start: bool = False, timeout: float | None = None) -> Callable[[_F], _F]:
    """Have the agent delegate a capability of its own to itself, at an interval; stands above `@capability`.

    One is open at a time: while it runs, those that fall due are left out, as are those that fell due while the process stood
    still. It begins anew with each start of the agent, up to 0.3 s late, and each of several agents of a class has its own.

    Args:
        seconds: the interval, at least 0.1.
        at_start: whether the first is due when the agent starts, and not after an interval.
        timeout: seconds that each has; None is the default of the bus.

    Raises:
        InvalidManifest: an argument is none that it can be, or the method has a schedule already.

    Example:
        class Heartbeat(Agent):
            @every(30.0)
            @capability("heartbeat.send")
            def send(self) -> None: ...

        bus.start(Heartbeat)
        bus.advance(31.0)
        assert bus.statistics()["accepted"] >= 1
    """
    if callable(seconds):
        raise InvalidManifest("@every needs seconds, in parentheses: @every(60).")
    if not is_number(seconds) or not _LEAST <= seconds < math.inf:
        raise InvalidManifest(f"@every({seconds!r:.40}): the interval is a number of seconds, {_LEAST} or more.")
    if not isinstance(at_start, bool):
        raise InvalidManifest(f"@every(…, at_start={at_start!r:.40}): True or False.")
    return _marking(_Every(float(seconds), _checked("every", timeout), at_start))


def cron(expression: str, *, zone: str = "UTC", timeout: float | None = None) -> Callable[[_F], _F]:
    """Have the agent delegate a capability of its own to itself at the times of a cron expression; as `every`.

    Args:
        expression: minute, hour, day of the month, month and day of the week, as in `"0 7 * * MON-FRI"`; with six fields, a
            second goes before them.
        zone: the time zone, as in `"Europe/Berlin"`.
        timeout: seconds that each has; None is the default of the bus.

    Raises:
        InvalidManifest: it is no such expression, or its time never comes; there is no such zone; or the method has a
            schedule already.
        MissingExtra: the extra `cron`, which brings cronsim, is not installed.
    """
    from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

    if callable(expression):
        raise InvalidManifest("@cron needs an expression, in parentheses: @cron('0 7 * * *').")
    where = f"@cron({expression!r:.80})"
    if not isinstance(expression, str):
        raise InvalidManifest(f"{where}: give five fields, as in '0 7 * * MON-FRI' for every working day at seven.")
    try:
        schedule = _Cron(expression, ZoneInfo(zone), _checked("cron", timeout))
    except (ZoneInfoNotFoundError, ValueError, TypeError):
        raise InvalidManifest(f"{where}: there is no time zone {zone!r:.40}; give one as in 'Europe/Berlin'.") from None
    try:
        schedule.due(None, 0.0)
    except MissingExtra:
        raise
    except StopIteration:
        raise InvalidManifest(f"{where}: the time never comes; give a day that one of its months has.") from None
    except Exception as error:  # noqa: BLE001  cronsim's own, and what it raises on other types
        how = "give five fields, as in '0 7 * * MON-FRI' for every working day at seven"
        if len(expression.split()) in {5, 6}:
            how = "a field is out of its range, or the time never comes, as there is no 30 February"
        raise InvalidManifest(f"{where}: {error}; {how}.") from None
    return _marking(schedule)


def schedule_of(function: object) -> Schedule | None:
    """The schedule of a method, if it has one."""
    return getattr(function, _MARK, None)


def _marking(schedule: Schedule) -> Callable[[_F], _F]:
    def mark(function: _F) -> _F:
        check_is_new(function, sys._getframe(1).f_locals)  # noqa: SLF001  where the decorator stands
        if schedule_of(function) is not None:
            raise InvalidManifest(f"{function.__qualname__} has two schedules: give each a method of its own.")
        setattr(function, _MARK, schedule)
        return function

    return mark


def _checked(where: str, timeout: float | None) -> float | None:
    if timeout is not None and not (is_number(timeout) and timeout > 0):
        raise InvalidManifest(f"@{where}: timeout={timeout!r:.40}: seconds above 0, or None.")
    return timeout


def _cronsim() -> Any:
    try:
        from cronsim import CronSim
    except ImportError:
        raise MissingExtra("@cron needs cronsim, which is not installed: pip install 'agent-ether[cron]'.") from None
    return CronSim
