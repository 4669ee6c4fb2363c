"""Where an attack goes."""
from dataclasses import dataclass
from typing import Optional


@dataclass(frozen=True)
class Target:
    h2c: Optional[int] = None  # port of clear HTTP/2 on 127.0.0.1
    tls: Optional[int] = None  # port of TLS on 127.0.0.1
    share: float = 1.0  # of the rate that the attack has by itself
    seed: int = 0  # of what it invents: another one, other inventions
