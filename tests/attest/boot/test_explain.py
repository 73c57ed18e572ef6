"""Which events changed since the approved boot: every kind of change, in one line, with consequence and action."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attest.boot import advice, banks, efi
from attest.boot import event_types as types
from attest.boot.eventlog import Event, EventLog, parse, text_event
from attest.boot.explain import Change, explain, explain_policy, of_log, of_state
from attest.boot.policy import BootPolicy, BootState, make_policy, reference_state
from tests.attest.boot import captures, made
from tests.attest.boot.made import GLOBAL, SECURITY, variable


def event(pcr: int, kind: int, data: bytes, content: bytes | None = None) -> Event:
    return Event(pcr, kind, banks.digest(banks.SHA256, data if content is None else content), data)


def changes(before: list[Event], after: list[Event]) -> list[str]:
    return [str(change) for change in explain(of_log(EventLog(tuple(before))), of_log(EventLog(tuple(after))))]


def switch(value: bytes) -> Event:
    return event(7, types.EV_EFI_VARIABLE_DRIVER_CONFIG, variable(GLOBAL, "SecureBoot", value))


def db(*names: str, name: str = "db") -> Event:
    lists = b"".join(made.signature_list(efi.CERT_X509, made.certificate(n)) for n in names)
    return event(7, types.EV_EFI_VARIABLE_DRIVER_CONFIG, variable(SECURITY, name, lists))


def kernel(text: str) -> Event:
    return event(9, types.EV_IPL, b"/boot/vmlinuz\0", text.encode())


def test_equal_boots_differ_in_nothing() -> None:
    log = of_log(parse(made.logs()["sha256"]))
    assert explain(log, log) == ()


def test_secure_boot_off_and_on() -> None:
    (line,) = changes([switch(b"\1")], [switch(b"\0")])
    assert line.startswith("PCR 7: variable SecureBoot changed from on to off. Secure Boot is off: ")
    assert "Turn it on again" in line
    (line,) = changes([switch(b"\0")], [switch(b"\1")])
    assert "Secure Boot is on" in line
    (line,) = changes([switch(b"\1")], [])
    assert line.startswith("PCR 7: missing: variable SecureBoot: on. Secure Boot is off: ")


def test_lists_of_certificates_show_what_came_and_went() -> None:
    (line,) = changes([db("a", "b")], [db("b", "c")])
    assert "changed from certificate a (" in line
    assert "to certificate c (" in line
    assert "certificate b" not in line
    (line,) = changes([db()], [db("a", "b", "c", "d", "e", "f")])
    assert "from nothing to certificate a" in line
    assert "and 2 more" in line


def test_lists_with_the_same_entries_in_another_order_show_their_values() -> None:
    (line,) = changes([db("a", "b")], [db("b", "a")])
    assert "from certificate a; certificate b to certificate b; certificate a" in line


@pytest.mark.parametrize("broken", [b"\1", variable(SECURITY, "db", b"\1\2")])
def test_a_list_that_cannot_be_read_is_compared_as_text(broken: bytes) -> None:
    (line,) = changes([db("a")], [event(7, types.EV_EFI_VARIABLE_DRIVER_CONFIG, broken)])
    assert "certificate a" in line


def test_the_same_thing_with_other_content() -> None:
    (line,) = changes([kernel("one")], [kernel("two")])
    assert line.startswith("PCR 9: /boot/vmlinuz changed from content ")
    assert "read other files" in line


def test_something_else_in_its_place() -> None:
    other = event(9, types.EV_IPL, b"/boot/other\0", b"two")
    (line,) = changes([kernel("one")], [other])
    assert line.startswith("PCR 9: /boot/vmlinuz was replaced by /boot/other. ")


def test_added_removed_and_moved() -> None:
    one, two = kernel("one"), event(9, types.EV_EVENT_TAG, made.tagged(0x8F3B22EC, b"Linux initrd\0"), b"initrd")
    (added,) = changes([one], [one, two])
    assert added.startswith("PCR 9: new: initrd: Linux initrd. Other programs run while the system starts. ")
    (removed,) = changes([one, two], [one])
    assert removed.startswith("PCR 9: missing: initrd: Linux initrd. ")
    (moved,) = changes([one, two], [two, one])
    assert "comes at another place" in moved


def test_a_section_measured_by_name_and_content_is_one_line() -> None:
    name = event(11, types.EV_IPL, made.utf16(".cmdline\0"), b".cmdline\0")
    content = event(11, types.EV_IPL, made.utf16(".cmdline\0"), b"quiet")
    (line,) = changes([], [name, content])
    assert line.startswith("PCR 11: new: .cmdline. The kernel starts with other options")


def test_our_own_components_are_paired_by_name() -> None:
    before = [text_event(13, "sits:component attest sha256:01"), text_event(13, "sits:component sitsedge sha256:02")]
    after = [text_event(13, "sits:component attest sha256:01"), text_event(13, "sits:component sitsedge sha256:03")]
    (line,) = changes(before, after)
    assert line.startswith("PCR 13: sits:component sitsedge changed from sha256:02 to sha256:03. ")
    assert "our software" in line


def test_only_chosen_pcrs_are_compared() -> None:
    before, after = of_log(EventLog((switch(b"\1"), kernel("one")))), of_log(EventLog((switch(b"\0"), kernel("two"))))
    assert [change.pcr for change in explain(before, after, pcrs=(9,))] == [9]


def test_an_event_is_paired_with_its_closest_kin_and_only_once() -> None:
    def command(text: str, content: str) -> Event:
        return event(8, types.EV_IPL, f"grub_cmd: {text}".encode(), content.encode())

    lines = changes([command("two", "1"), command("one", "2")], [command("two", "3"), command("three", "4")])
    assert [line.split(". ")[0].split(" changed from ")[1][:8] for line in lines] == ["content ", "one to t"]


def test_long_rests_are_paired_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("attest.boot.explain._PAIRS_MAX", 3)
    before = [event(8, types.EV_IPL, b"grub_cmd: %d" % i) for i in range(3)]
    after = [event(8, types.EV_IPL, b"grub_cmd: %d" % i) for i in range(10, 14)]
    assert [line.split(". ")[0] for line in changes(before, after)] == [
        "PCR 8: grub_cmd changed from 0 to 10",
        "PCR 8: grub_cmd changed from 1 to 11",
        "PCR 8: grub_cmd changed from 2 to 12",
        "PCR 8: new: grub_cmd: 13",
    ]


@given(st.lists(st.tuples(st.integers(0, 2), st.sampled_from(["a: 1", "a: 2", "b", "c: x"])), max_size=12), st.data())
def test_changes_tell_equal_from_different(items: list[tuple[int, str]], data: st.DataObject) -> None:
    before = EventLog(tuple(text_event(pcr, text) for pcr, text in items))
    other = data.draw(st.permutations(items))
    after = EventLog(tuple(text_event(pcr, text) for pcr, text in other))
    assert (explain(of_log(before), of_log(after)) == ()) == (before.replay() == after.replay())


# --- against a policy -----------------------------------------------------------------------------------------------

LOG = parse(made.logs()["sha256"])


def policy(*states: BootState) -> BootPolicy:
    return make_policy(name="mill", version=1, states=states, not_before_ns=0, not_after_ns=1, tpm_kinds=["hardware"])


def approved(label: str, log: EventLog = LOG) -> BootState:
    return reference_state(label, log=log, values={pcr: log.value(pcr) for pcr in range(24)}, pcrs=(0, 4, 7, 11))


def test_an_allowed_state_differs_in_nothing() -> None:
    assert explain_policy(policy(approved("one")), LOG) == ("one", ())


def test_the_nearest_state_is_compared() -> None:
    far = BootState("far", dict.fromkeys((0, 4, 7, 11), bytes(32)))
    log = EventLog((*LOG.events, switch(b"\0")))
    label, found = explain_policy(policy(far, approved("one")), log)
    assert label == "one"
    assert [(change.pcr, change.kind) for change in found] == [(7, "added")]


def test_descriptions_of_the_policy_give_the_same_words_as_a_log() -> None:
    state = approved("one")
    for pcr, items in of_state(state).items():
        assert [(item.digest, item.text) for item in items] == [(i.digest, i.text) for i in of_log(LOG)[pcr]]


def test_a_state_without_reference_events_still_names_the_pcr() -> None:
    label, (change,) = explain_policy(policy(BootState("bare", {0: bytes(32)})), LOG)
    assert (label, change.pcr, change.subject) == ("bare", 0, "the value")
    assert "firmware" in change.consequence


def test_pcrs_judged_by_events() -> None:
    digests = frozenset(e.digest for e in LOG.of(11))
    state = BootState("set", {0: LOG.value(0)}, {11: digests})
    strange = EventLog((*LOG.events, event(11, types.EV_IPL, b"strange")))
    _, (change,) = explain_policy(policy(state), strange)
    assert (change.kind, change.after) == ("added", "strange")
    none = EventLog(tuple(e for e in LOG.events if e.pcr != 11))
    _, (change,) = explain_policy(policy(state), none)
    assert (change.before, change.after) == ("at least one allowed event", "no event")


# --- what it means --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("pcr", range(24))
def test_every_pcr_has_advice(pcr: int) -> None:
    consequence, action = advice.advise(pcr, "anything", "")
    assert consequence[0].isupper()
    assert advice.APPROVE in action


@pytest.mark.parametrize(
    ("pcr", "subject", "words"),
    [
        (7, "variable PK", "owner"),
        (7, "variable dbx", "forbidden"),
        (7, "variable db", "signers"),
        (7, "variable AuditMode", "Secure Boot setting"),
        (7, "authority db", "certificate"),
        (1, "variable BootOrder", "order"),
        (1, "variable Boot0001", "boot entry"),
        (8, "kernel_cmdline", "options"),
        (14, "MokList", "shim"),
        (0, "error while starting", "error"),
    ],
)
def test_advice_by_subject(pcr: int, subject: str, words: str) -> None:
    assert words in advice.advise(pcr, subject, "")[0]


def test_a_change_is_one_line() -> None:
    change = Change(7, "changed", "variable SecureBoot", "on", "off", "Consequence", "Action")
    assert "\n" not in str(change)


def test_recorded_boots_with_and_without_secure_boot(fixtures_dir: Path) -> None:
    on, off = (parse(captures.load(fixtures_dir, f"x86_64-uki-{name}").log) for name in ("secureboot", "nosb"))
    lines = [str(change) for change in explain(of_log(on), of_log(off))]
    assert any(line.startswith("PCR 7: variable SecureBoot changed from on to off.") for line in lines)
    assert any(line.startswith("PCR 7: missing: authority db: certificate ") for line in lines)
    assert {line.split(":")[0] for line in lines} == {"PCR 0", "PCR 4", "PCR 7"}
