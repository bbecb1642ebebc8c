"""Checks for your own Robot Context Protocol adapter, as a pytest suite. Needs pytest.

::

    from robot_mcp_kit.testing.adapter_conformance import AdapterConformance


    class TestMyRobot(AdapterConformance):
        connect_config = {"host": "192.168.0.10"}

        def make_adapter(self):
            return MyRobotAdapter()

Nothing moves and nothing is set unless the class says so: see :class:`Conformance`.
"""

from robot_mcp_kit.testing.adapter_conformance.actuating import ActuatingChecks
from robot_mcp_kit.testing.adapter_conformance.base import Conformance
from robot_mcp_kit.testing.adapter_conformance.contract import ContractChecks
from robot_mcp_kit.testing.adapter_conformance.reading import ReadingChecks


class AdapterConformance(ContractChecks, ReadingChecks, ActuatingChecks):
    """Everything. Subclass it with a name that pytest collects, and write :meth:`make_adapter`."""


__all__ = ["ActuatingChecks", "AdapterConformance", "Conformance", "ContractChecks", "ReadingChecks"]
