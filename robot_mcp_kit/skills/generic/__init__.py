"""Any other action as a skill, from one entry of the configuration and the action's own type (B31 - B34)."""
