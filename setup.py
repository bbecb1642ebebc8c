"""Build as a ROS 2 package (ament_python) and as a plain Python package; metadata is in pyproject.toml."""

from glob import glob

from setuptools import setup

NAME = "robot_mcp_kit"

setup(
    license="Apache-2.0",
    python_requires=">=3.11",
    data_files=[
        ("share/ament_index/resource_index/packages", [f"resource/{NAME}"]),
        (f"share/{NAME}", ["package.xml"]),
        (f"share/{NAME}/launch", sorted(glob("launch/*.launch.py"))),
        (f"share/{NAME}/config", sorted(glob("config/*"))),
        # Not console scripts: `bridge` and `sim` are no names for everybody's PATH. `ros2 run` looks here.
        (f"lib/{NAME}", sorted(glob("scripts/*"))),
    ],
)
