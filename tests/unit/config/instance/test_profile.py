"""artemis.profile: what of its shell text counts."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from mqbroker.config.instance.profile import read_profile, system_properties


class ProfileTests(SynchronousTestCase):
    def read(self, text: str, **variables: str) -> dict[str, str]:
        self.told: list[tuple[int, str]] = []
        return read_profile(text, variables, lambda line, told: self.told.append((line, told)))

    def test_assignments(self) -> None:
        found = self.read("A='x y' # c\nB=\"$A/${A}-${C:-d}\"\nexport E=$B'$A'z\nF=\n# G=1\n")
        self.assertEqual(found, {"A": "x y", "B": "x y/x y-d", "E": "x y/x y-d$Az", "F": ""})
        self.assertEqual(self.told, [])

    def test_continued_lines(self) -> None:
        self.assertEqual(self.read('A="b \\\n c"\nD="e\nf"')["A"].split(), ["b", "c"])
        self.assertEqual(self.read('D="e\nf"\nG=1'), {"D": "e\nf", "G": "1"})

    def test_conditions(self) -> None:
        text = 'if [ -z "$A" ]; then\n  A="own"\nelse\n  B=1\nfi\n'
        text += 'if [ "$1" = "run" ]; then :\n  R=1\nfi\nif [ "$1" != "run" ]\nthen\n R=2\nfi\n'
        self.assertEqual(self.read(text), {"A": "own", "R": "1"})
        self.assertEqual(self.read(text, A="given"), {"A": "given", "B": "1", "R": "1"})
        self.assertEqual(self.told, [])

    def test_what_needs_a_shell_is_told(self) -> None:
        found = self.read("A=$(hostname)\nB=`id`\nrm -rf /\nif [ -f /x ]; then\n C=1\nfi\nD=1")
        self.assertEqual(found, {"D": "1"})
        self.assertEqual([line for line, _ in self.told], [1, 2, 3, 4])

    def test_system_properties(self) -> None:
        self.assertEqual(system_properties("-Xmx2G -Da=b -Dc -Dd=e=f -D --add-opens x=y"), {"a": "b", "c": "", "d": "e=f"})

    @given(st.text(alphabet="A=\"'$ {}\\\n#;fi", max_size=40))
    def test_any_text_is_read(self, text: str) -> None:
        self.read(text)
