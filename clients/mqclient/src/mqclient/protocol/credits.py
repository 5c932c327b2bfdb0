"""Flow control: the bytes that a consumer lets the broker send, and the bytes that a producer may send.

Source: ``protocol-spec/``, chapter "Flow control".  Pure arithmetic; the caller sends the returned credits.
"""

from __future__ import annotations

UNLIMITED = -1


class ConsumerCredits:
    """The credits of one consumer, in bytes of whole frames.

    ``window``: -1 unlimited; 0 one message at a time, each asked for; 1 one message is granted at a time by itself; n > 1 bytes of buffer.
    """

    __slots__ = ("_asked", "_returned", "_withdrawn", "window")

    def __init__(self, window: int) -> None:
        self.window = window
        self._returned = 0
        self._asked = False
        self._withdrawn = False
        """Was a credit withdrawn?  A message may have come for it all the same: then the broker's balance is not known."""

    def initial(self) -> int | None:
        """Credits to grant to a new consumer; None: none."""
        return self.window or None

    def after_recreation(self) -> int:
        """Credits to grant when the consumer was created anew after a failure."""
        self._returned = 0
        self._asked = self.window == 0
        self._withdrawn = False
        return UNLIMITED if self.window < 0 else max(self.window >> 1, 1)

    def ask(self) -> int | None:
        """A receive begins: credits to grant for it, None when none are needed."""
        if self.window != 0 or self._asked:
            return None
        self._asked = True
        return 1

    def withdraw(self) -> bool:
        """A receive has ended without a message: must the broker's balance be set to 0?"""
        withdrawn = self.window == 0 and self._asked
        self._asked = False
        self._withdrawn = self._withdrawn or withdrawn
        return withdrawn

    def arrived(self) -> None:
        """A message has arrived: the requested credits are used up."""
        self._asked = False

    def taken(self, frame_size: int) -> int | None:
        """A whole message was taken out of the buffer: credits to grant now, None when they still gather.

        0 sets the balance at the broker to zero, where it is not known: bytes given back for a message that came for a withdrawn credit
        would be left over, and let further messages come unasked.
        """
        if self._withdrawn and not self._asked:
            return 0
        return self.part_taken(frame_size, True)

    def part_taken(self, frame_size: int, last: bool) -> int | None:
        """A part of a large message was taken, ``last`` or not: credits to grant now, None when they still gather."""
        if self.window < 0:
            return None
        if self.window == 0:
            # One byte was granted in advance.
            return frame_size - 1 if last else frame_size
        self._returned += frame_size
        if self._returned < max(self.window >> 1, 1):
            return None
        return self.gathered()

    def gathered(self) -> int | None:
        """The gathered credits, to grant now although they are few: messages that are not taken yet hold the rest of the window."""
        returned, self._returned = self._returned, 0
        return returned or None


class ProducerCredits:
    """The credits of one session for one address, in bytes of encoded messages.

    A sender that may not wait overdraws ``balance``; the missing bytes are requested, too.
    """

    __slots__ = ("_arriving", "_full", "balance", "half_window", "window")

    def __init__(self, window: int) -> None:
        self.window = window
        self.half_window = window // 2
        self.balance = 0
        self._arriving = 0
        self._full = False

    def request(self, size: int) -> int:
        """Credits to ask for before a message of ``size`` bytes; 0: enough are there or on their way."""
        needed = max(size, self.half_window)
        if self.balance + self._arriving >= needed:
            return 0
        amount = needed - min(self.balance, 0) - self._arriving
        self._arriving += amount
        return amount

    @property
    def spare(self) -> int:
        """Bytes that can be sent now; 0 while a refusal waits for the send that it fails."""
        return 0 if self._full else self.balance

    def granted(self, credits: int) -> None:
        # After a refusal the grant comes a second time, once there is room again: the refusal is out of date then.
        self.take_refusal()
        self._add(credits)

    def refused(self, credits: int) -> None:
        """The address is full and its policy is FAIL."""
        self._add(credits)
        self._full = True

    def _add(self, credits: int) -> None:
        self._arriving = max(self._arriving - credits, 0)
        self.balance += credits

    def take_refusal(self) -> bool:
        """Has the broker refused since the last call?  Then the balance starts from 0 again."""
        full, self._full = self._full, False
        if full:
            self.balance = 0
        return full

    def spend(self, size: int) -> bool:
        """Use credits for a message; False: not enough."""
        if self.balance < size:
            return False
        self.balance -= size
        return True

    def after_recreation(self) -> int:
        """The session was created anew: credits to ask for, 0 without flow control."""
        self.balance = 0
        self._full = False
        self._arriving = max(self._arriving, self.window)
        return self._arriving
