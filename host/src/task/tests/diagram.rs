//! The diagram in ARCHITECTURE.md is drawn from what the machine does. `UPDATE_EXPECT=1` draws it anew.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use super::laws::births;
use super::world::everywhere;
use crate::task::{Kind, Reason, Transition};

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../ARCHITECTURE.md");
const BEGIN: &str = "<!-- states:begin -->\n";
const END: &str = "<!-- states:end -->";

/// The reason as the diagram names it: kinds of a kind are one.
fn label(reason: Reason) -> &'static str {
    #[expect(clippy::wildcard_enum_match_arm, reason = "the others are named by their codes")]
    match reason {
        Reason::Rejected(_) => "refused",
        Reason::Died(_) => "died",
        Reason::StopAsked(_) => "stop_asked",
        other => other.code(),
    }
}

fn drawn() -> String {
    let mut arrows: BTreeMap<(Option<Kind>, Kind), BTreeSet<&str>> = BTreeMap::new();
    let mut see = |line: &Transition| {
        arrows.entry((line.from, line.to)).or_default().insert(label(line.reason));
    };
    births().iter().flat_map(|step| &step.trail).for_each(&mut see);
    everywhere(|case| case.step().into_iter().flat_map(|step| &step.trail).for_each(&mut see));

    let mut text = "```mermaid\nstateDiagram-v2\n".to_owned();
    for ((from, to), reasons) in arrows {
        let from = from.map_or("[*]", Kind::code);
        let reasons: Vec<&str> = reasons.into_iter().collect();
        writeln!(text, "    {from} --> {}: {}", to.code(), reasons.join(", ")).unwrap();
    }
    for end in [Kind::Success, Kind::Cancelled, Kind::Rejected] {
        writeln!(text, "    {} --> [*]", end.code()).unwrap();
    }
    text + "```\n"
}

#[test]
fn the_diagram_shows_what_the_machine_does() {
    let page = std::fs::read_to_string(PAGE).unwrap();
    let (head, rest) = page.split_once(BEGIN).expect("the page has a mark where the diagram begins");
    let (shown, tail) = rest.split_once(END).expect("the page has a mark where the diagram ends");
    let drawn = drawn();
    if shown == drawn {
        return;
    }
    assert!(std::env::var_os("UPDATE_EXPECT").is_some(), "the diagram in {PAGE} is old: run with UPDATE_EXPECT=1");
    std::fs::write(PAGE, format!("{head}{BEGIN}{drawn}{END}{tail}")).unwrap();
}
