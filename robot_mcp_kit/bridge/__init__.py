"""One run of one goal: state machine, ledger, stop. Knows ports (ABCs) and no ROS."""
