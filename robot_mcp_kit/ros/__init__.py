"""The ROS 2 side: the only room (with ``sim``) that imports rclpy and message packages.

Importing this package imports no ROS; its modules do. Call :func:`environment.prepare_environment` first.
"""
