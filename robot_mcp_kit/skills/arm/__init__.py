"""Arms and grippers as skills: MoveIt's planning and executing, joint trajectories, the gripper."""
