"""Nav2's actions as skills: driving to a pose, along poses and waypoints, the behaviors, docking."""
