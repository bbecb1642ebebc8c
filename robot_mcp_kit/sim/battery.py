"""A battery that drains with time and motion and charges on the dock. Pure."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class Battery:
    """Charge as a fraction (0..1, as in ``sensor_msgs/BatteryState.percentage``), voltage in V, current in A.

    Current is negative while discharging, as the message asks for.
    """

    percentage: float = 0.85
    capacity_ah: float = 10.0
    current_a: float = 0.0
    charging: bool = False

    IDLE_A = 0.8
    DRIVE_A_PER_MPS = 4.0
    CHARGE_A = 5.0

    @property
    def voltage_v(self) -> float:
        return 21.0 + 4.2 * self.percentage + 0.05 * self.current_a

    @property
    def full(self) -> bool:
        return self.percentage >= 0.999

    def step(self, dt_s: float, speed: float, *, on_dock: bool) -> None:
        """Advance; ``speed`` is the base's speed in m/s."""
        self.charging = on_dock and not self.full
        if self.charging:
            self.current_a = self.CHARGE_A
        elif on_dock:
            self.current_a = 0.0
        else:
            self.current_a = -(self.IDLE_A + self.DRIVE_A_PER_MPS * abs(speed))
        charge = self.percentage + self.current_a * dt_s / 3600.0 / self.capacity_ah
        self.percentage = min(1.0, max(0.0, charge))
