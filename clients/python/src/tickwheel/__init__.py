"""Client of tickwheeld, the durable timer service.

    from tickwheel import Client

    with Client("http://localhost:8463") as timers:
        timer = timers.create("https://shop.example/recheck", after="30m", payload={"order": 42})
        timers.cancel(timer.id)
"""

from .async_client import AsyncClient
from .client import Client
from .errors import (
    AlreadyFiring,
    BadAnswer,
    Gone,
    Invalid,
    KeyInUse,
    NotFound,
    Problem,
    Refused,
    TickwheelError,
    TooMany,
    Unauthorized,
    Unavailable,
    Unreachable,
    UnknownOutcome,
    VersionMismatch,
)
from .models import BatchResult, DeadGroup, Event, Forecast, Item, Run, TargetOutcome, Timer
from .worker import AsyncWorker, Dead, Retry, Worker

__all__ = [
    "AlreadyFiring", "AsyncClient", "AsyncWorker", "BadAnswer", "BatchResult", "Client", "Dead", "DeadGroup",
    "Event", "Forecast", "Gone", "Invalid", "Item", "KeyInUse", "NotFound", "Problem", "Refused", "Retry", "Run",
    "TargetOutcome", "TickwheelError", "Timer", "TooMany", "Unauthorized", "Unavailable", "UnknownOutcome", "Unreachable",
    "VersionMismatch", "Worker",
]
__version__ = "0.2.0"
