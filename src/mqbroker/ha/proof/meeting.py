"""Two copies of a node that meet: their words to each other, and which of them is to go on.

Source: ``protocol-spec/``, chapter "Cluster packets".
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

from mqbroker.ha.proof.copy_record import COPY_ID_SIZE_MAX, SEQUENCE_MAX, CopyState
from mqclient.wire.primitives import Decoder, Encoder

MEETING = "MqbrokerCopyMeeting"
"""The handler's name of the questions between copies."""

MEETING_SIZE_MAX = 1024
"""Bytes of a question or an answer between copies: ids and numbers, nothing that grows."""

_STATES = (CopyState.INCOMPLETE, CopyState.GIVEN_UP, CopyState.COMPLETE)


class Activity(IntEnum):
    """The activity of a copy; the copy that does more is preferred."""

    PASSIVE = 0
    SEEKING = 1
    ACTIVE = 2
    """Also an active broker that has lost its replica and waits for the proof."""


@dataclass(frozen=True, slots=True)
class Standing:
    """The word of a copy about itself.

    ``noted`` is the id of the other copy in its note, empty for none.  ``search`` is random for each search for a proof, empty while there
    is none.  ``word_for`` is the search of the other copy, if this was said with knowledge of it: in an answer, or in a later visit.  See
    :class:`mqbroker.ha.proof.copy_record.CopyRecord` for the others.
    """

    node_id: str
    copy_id: str
    activity: Activity
    state: CopyState
    sequence: int
    primary: bool
    took_over: bool = False
    noted: str = ""
    search: str = ""
    word_for: str = ""

    @property
    def complete(self) -> bool:
        return self.state is CopyState.COMPLETE

    def gives_word_to(self, other: Standing) -> bool:
        """Is this a proof for ``other``?

        Only the copy in its note can have what it has.  The data of that one are not used any more, and never were at a later sequence;
        it knows the search of ``other``, so that this was said since that began.
        """
        if self.node_id != other.node_id or self.copy_id != other.noted or not other.search or self.word_for != other.search:
            return False
        return not self.complete and self.sequence <= other.sequence

    def yields_to(self, other: Standing) -> bool:
        """Is this copy to give itself up when it meets ``other``?

        Either ``other`` seeks and needs its word, or both are active, as a pair that was cut.
        """
        if self.node_id != other.node_id or other.activity is Activity.PASSIVE:
            return False
        if self.activity is other.activity is Activity.ACTIVE:
            return other.preferred_to(self)
        wanted = bool(other.search) and other.noted == self.copy_id and other.sequence >= self.sequence
        return wanted and (not self.complete or (other.complete and other.preferred_to(self)))

    def preferred_to(self, other: Standing) -> bool:
        """Is this the copy that goes on when the two meet?  Both are complete, and of one node; one of the two always is.

        An active one goes before one that seeks, then the higher sequence, then, of two that are active (a pair that was cut), the one
        that took over, then the primary.
        """
        return self._rank(other) > other._rank(self)

    def _rank(self, other: Standing) -> tuple[int, int, bool, bool, str]:
        both_active = self.activity is other.activity is Activity.ACTIVE
        return self.activity, self.sequence, both_active and self.took_over, self.primary, self.copy_id

    def encode(self) -> bytes:
        encoder = Encoder()
        encoder.string(self.node_id)
        encoder.string(self.copy_id)
        encoder.i8(self.activity)
        encoder.i8(_STATES.index(self.state))
        encoder.i64(self.sequence)
        encoder.boolean(self.primary)
        encoder.boolean(self.took_over)
        encoder.string(self.noted)
        encoder.string(self.search)
        encoder.string(self.word_for)
        return bytes(encoder.data)

    @classmethod
    def decode(cls, data: bytes) -> Standing:
        """Raises MalformedPacketError."""
        decoder = Decoder(data, MEETING)
        if len(data) > MEETING_SIZE_MAX:
            raise decoder.fail(f"{len(data)} bytes are more than {MEETING_SIZE_MAX}")
        node_id, copy_id = decoder.string(), decoder.string()
        activity, state, sequence = decoder.i8(), decoder.i8(), decoder.i64()
        if not 0 <= activity < len(Activity) or not 0 <= state < len(_STATES) or not 0 <= sequence <= SEQUENCE_MAX:
            raise decoder.fail(f"activity {activity}, state {state} or sequence {sequence} is out of range")
        primary, took_over = decoder.boolean(), decoder.boolean()
        noted, search, word_for = decoder.string(), decoder.string(), decoder.string()
        if not copy_id or max(map(len, (node_id, copy_id, noted, search, word_for))) > COPY_ID_SIZE_MAX:
            raise decoder.fail("an id is empty or too long")
        return cls(node_id, copy_id, Activity(activity), _STATES[state], sequence, primary, took_over, noted, search, word_for)
