use ratatui::Terminal;
use ratatui::backend::TestBackend;

use super::*;
use crate::top::frame::Frame;
use crate::top::state::Key;

/// Terminal of the screenshot in the manual.
const SIZE: (u16, u16) = (96, 14);

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/top.md");

fn job(id: u32, name: &str, state: State, bandwidth: Option<f64>, why: &str) -> Lane {
    Lane {
        id: id.to_string(),
        name: name.to_owned(),
        state,
        bandwidth,
        why: why.to_owned(),
        details: vec![("command", format!("{name} -9 -k a")), ("cores", "1".to_owned())],
    }
}

/// A queue of five jobs after some quanta of which each job got two in three.
fn top() -> Top {
    use State::{Blocked, Running, Waiting};
    let mut top =
        Top::new("memweir top: queue at /run/memweir.sock, max-weight".to_owned(), Some(32e9));
    for quantum in 0..24_u32 {
        let turn = |job: u32, why: &str| match (quantum + job) % 3 {
            0 => (Blocked, None, "not selected in this quantum".to_owned()),
            phase => (Running, Some(f64::from(job * 2 + phase) * 1e9), why.to_owned()),
        };
        let lane = |id: u32, name: &str, why: &str| {
            let (state, bandwidth, why) = turn(id, why);
            job(id, name, state, bandwidth, &why)
        };
        let mut lanes =
            vec![lane(4, "stream", "head"), lane(5, "gzip", "fits"), lane(6, "xz", "fits")];
        let bandwidth = lanes.iter().filter_map(|lane| lane.bandwidth).sum();
        lanes.push(job(7, "sort", Waiting, None, "no free place: jobs on 3 of 3 cores take turns"));
        lanes.push(job(8, "checksum", Waiting, None, "waits for job 7"));
        let at_s = f64::from(quantum + 1) / 10.0;
        top.push(Frame { at_s, bandwidth: Some(bandwidth), target: Some(24e9), lanes });
    }
    top
}

fn type_in(top: &mut Top, letters: &str) {
    for letter in letters.chars() {
        top.key(Key::Letter(letter));
    }
}

fn drawn(top: &Top, (width, height): (u16, u16)) -> String {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal.draw(|screen| draw(screen, top)).unwrap();
    let buffer = terminal.backend().buffer().clone();
    let line = |y: u16| {
        let cells = (0..width).map(|x| buffer[(x, y)].symbol());
        cells.collect::<String>().trim_end().to_owned() + "\n"
    };
    (0..height).map(line).collect()
}

#[test]
fn the_manual_shows_what_is_drawn() {
    let page = std::fs::read_to_string(PAGE).expect("the manual");
    let shown = drawn(&top(), SIZE);
    assert!(page.contains(&shown), "docs/top.md should show:\n{shown}");
}

#[test]
fn bandwidth_target_peak_and_lanes_are_drawn() {
    let text = drawn(&top(), SIZE);
    for part in
        ["bandwidth", "target", "24.0 GB/s", "peak 32.0 GB/s", "▲", "waits for job 7", "2.40 s  x1"]
    {
        assert!(text.contains(part), "{part} in\n{text}");
    }
    let stream = text.lines().find(|line| line.contains("stream")).expect("a lane");
    assert!(stream.contains("██░██░"), "{stream}");
}

#[test]
fn control_groups_have_names_and_no_bandwidth_has_no_course() {
    let mut top = Top::new("watch".to_owned(), None);
    let group = job(0, "postgresql@15.service", State::Running, None, "2.36 cores");
    let group = Lane { id: "/system.slice/postgresql@15.service".to_owned(), ..group };
    top.push(Frame { lanes: vec![group], ..Frame::default() });
    let text = drawn(&top, SIZE);
    assert!(text.contains(" postgresql@15.service running"), "{text}");
    assert!(!text.contains("/system") && !text.contains('▁'), "{text}");
    assert!(text.contains(" name ") && !text.contains(" job "), "{text}");
}

#[test]
fn the_keys_change_the_picture() {
    let mut top = top();
    type_in(&mut top, "  +");
    assert!(drawn(&top, SIZE).contains("x2"));
    top.key(Key::Letter(' '));
    assert!(drawn(&top, SIZE).contains("paused"));
    top.key(Key::Letter('?'));
    let help = drawn(&top, (96, 24));
    assert!(help.contains("keys") && help.contains("twice, half as fast"), "{help}");
    top.key(Key::Escape);
    type_in(&mut top, "fsort");
    let filtered = drawn(&top, SIZE);
    assert!(filtered.contains("filter: sort") && !filtered.contains("gzip"), "{filtered}");
    top.key(Key::Enter);
    top.key(Key::Enter);
    let details = drawn(&top, (96, 24));
    assert!(details.contains("7 sort") && details.contains("sort -9 -k a"), "{details}");
}

#[test]
fn boxes_show_all_of_their_lines_in_80_columns() {
    let mut top = top();
    top.key(Key::Letter('?'));
    let help = drawn(&top, (80, 24));
    assert!(help.contains("Esc clears it") && help.contains("target of the policy"), "{help}");
    let mut lane = job(1, "long", State::Running, None, "");
    lane.details[0].1 = "#".repeat(300);
    top.push(Frame { lanes: vec![lane], ..Frame::default() });
    top.key(Key::Escape);
    top.key(Key::Enter);
    let details = drawn(&top, (80, 24));
    assert_eq!(details.matches('#').count(), 300, "{details}");
    assert!(details.contains("cores      1"), "{details}");
}

#[test]
fn any_size_and_any_queue_can_be_drawn() {
    let empty = Top::new("nothing".to_owned(), None);
    let mut many = top();
    let lanes = (0..500).map(|id| job(id, "many", State::Waiting, None, "")).collect();
    many.push(Frame { lanes, ..Frame::default() });
    type_in(&mut many, &"j".repeat(400));
    for size in [(1, 1), (5, 3), (20, 7), (80, 24), (300, 100)] {
        for mode in ["", "?", "f"] {
            for top in [&empty, &many] {
                let mut top = top.clone();
                type_in(&mut top, mode);
                drawn(&top, size);
            }
        }
    }
    // The selected lane is in sight.
    assert!(drawn(&many, (80, 24)).contains(" 400 many"));
    let mut details = many;
    details.key(Key::Enter);
    drawn(&details, (3, 2));
}
