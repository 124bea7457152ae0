"""What must hold after a campaign. Each rule reads the evidence and names what breaks it."""
