import json
import subprocess
import sys

CHILD = """
import sys
from ambientd.pipe import ParentPipe
pipe = ParentPipe(patient=False)
print("a stray print")
for number in range(20_000):
    pipe.send("progress", frames=number)
    if number % 200 == 0:
        pipe.send("gap", number=number)
sys.stderr.write("not held up\\n")
sys.stderr.flush()
orders = pipe.orders()
next(orders)
pipe.send("progress", frames=999_999)
pipe.finish(10)
"""


def test_a_reader_that_stops_reading_holds_nothing_up_and_loses_no_event() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", CHILD],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stderr is not None
        # Nobody has read its stdout so far, which takes 64 kB.
        said = [process.stderr.readline() for _ in range(2)]
        assert b"not held up\n" in said
        out, rest = process.communicate(b'{"order":"go on"}\n', timeout=20)
    assert process.returncode == 0, rest
    events = [json.loads(line) for line in out.splitlines()]
    gaps = [event["number"] for event in events if event["event"] == "gap"]
    assert gaps == list(range(0, 20_000, 200))
    frames = [event["frames"] for event in events if event["event"] == "progress"]
    assert frames == sorted(frames)
    assert b"a stray print" in b"".join(said) + rest, "prints must go to stderr"
