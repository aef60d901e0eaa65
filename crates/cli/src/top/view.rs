//! Drawing.

use memweir_watch::State;
use ratatui::Frame as Screen;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Clear, Paragraph};

use super::frame::Lane;
use super::state::{COURSE, Mode, Motion, Top};
use crate::render::bars::{bar, sparkline};
use crate::render::text::{known, padded, rate, seconds, shortened, width_of};

/// Widths of the columns in front of a lane's course.
const ID: usize = 6;
const NAME: usize = 14;
const STATE: usize = 8;
const BANDWIDTH: usize = 11;

/// Width of the words in front of the bars.
const HEAD: usize = 24;

const KEYS: &str = " ? help  q quit  space pause  j/k select  Enter details  f filter  +/- rate";

const HELP: [(&str, &str); 9] = [
    ("j, k, arrows", "select another lane"),
    ("Enter", "details of the selected lane; back"),
    ("space", "pause; go on"),
    ("+, -", "twice, half as fast"),
    ("f", "filter: lanes with this text; Enter keeps it, Esc clears it"),
    ("?", "this help; back"),
    ("q, Ctrl-C", "quit"),
    ("█ ░ · ✓", "a lane ran, was blocked, waited, has ended, quantum by quantum"),
    ("▲", "target of the policy; below the bar"),
];

/// Draws everything.
pub(super) fn draw(screen: &mut Screen<'_>, top: &Top) {
    let rows = [
        Constraint::Length(1),
        Constraint::Length(3),
        Constraint::Length(1),
        Constraint::Min(1),
        Constraint::Length(1),
    ];
    let [title, bus, head, lanes, foot] = Layout::vertical(rows).areas(screen.area());
    draw_title(screen, title, top);
    draw_bus(screen, bus, top);
    draw_lanes(screen, head, lanes, top);
    let text = match top.mode {
        Mode::Filter => format!(" filter: {}▏  Enter keeps it, Esc clears it", top.filter),
        _ if !top.filter.is_empty() => format!(" filter: {}  Esc clears it", top.filter),
        _ => KEYS.to_owned(),
    };
    screen.render_widget(Paragraph::new(text).style(Modifier::DIM), foot);
    match top.mode {
        Mode::Help => draw_help(screen),
        Mode::Details => draw_details(screen, top),
        Mode::Lanes | Mode::Filter => {}
    }
}

fn draw_title(screen: &mut Screen<'_>, area: Rect, top: &Top) {
    let time = top.now().map_or(0.0, |frame| frame.at_s);
    let motion = match top.motion {
        Motion::Runs => "",
        Motion::Paused => "  paused",
        Motion::Over => "  end",
    };
    let right = format!("{}  x{}{motion} ", seconds(time), top.rate());
    let width = usize::from(area.width);
    let left =
        shortened(&format!(" {}", top.title), width.saturating_sub(right.chars().count() + 1));
    let gap = width.saturating_sub(width_of(&left) + right.chars().count());
    let text = format!("{left}{}{right}", " ".repeat(gap));
    screen.render_widget(Paragraph::new(text).style(Modifier::REVERSED), area);
}

/// Draws the bandwidth against target and peak, and its course.
fn draw_bus(screen: &mut Screen<'_>, area: Rect, top: &Top) {
    let now = top.now();
    let (bandwidth, target) =
        (now.and_then(|frame| frame.bandwidth), now.and_then(|frame| frame.target));
    let scale = top.scale();
    let peak = known(top.peak, |peak| format!("peak {}", rate(peak)));
    let room = usize::from(area.width).saturating_sub(HEAD + peak.chars().count() + 3);
    let share = |value: f64| if scale > 0.0 { value / scale } else { 0.0 };
    let filled = bar(bandwidth.map_or(0.0, share), room);
    let rest = room.saturating_sub(filled.chars().count());
    let head = |name: &str, value: Option<f64>| format!(" {name:<10} {:>11} ", known(value, rate));
    let over = top.peak.zip(bandwidth).is_some_and(|(peak, bandwidth)| bandwidth >= peak);
    let color = if over { Color::Red } else { Color::Green };
    let bar = Line::from(vec![
        Span::raw(head("bandwidth", bandwidth)),
        Span::styled(filled, color),
        Span::raw(format!("{}▏{peak}", " ".repeat(rest))),
    ]);
    let mark = target.map_or(String::new(), |target| {
        let cell = (share(target).clamp(0.0, 1.0) * room.saturating_sub(1) as f64).round();
        format!("{}▲", " ".repeat(cell as usize))
    });
    let course = sparkline(&top.bandwidths(room), room);
    let lines = vec![
        bar,
        Line::raw(format!("{}{mark}", head("target", target))),
        Line::raw(format!("{:<HEAD$}{course}", " course")),
    ];
    screen.render_widget(Paragraph::new(lines), area);
}

fn draw_lanes(screen: &mut Screen<'_>, head: Rect, area: Rect, top: &Top) {
    let width = usize::from(area.width);
    let left = 1 + ID + 1 + NAME + 1 + STATE + 1 + BANDWIDTH + 1;
    let course = (width.saturating_sub(left) / 2).clamp(1, COURSE);
    let lanes = top.lanes();
    let label = Label::of(&lanes);
    let columns = format!(
        "{} {:<STATE$} {:>BANDWIDTH$} {:<course$} why",
        label.columns("job", "name"),
        "state",
        "bandwidth",
        "course"
    );
    screen.render_widget(Paragraph::new(columns).style(Modifier::BOLD), head);
    if lanes.is_empty() {
        let text = match top.now() {
            None => " waiting for the first quantum",
            Some(_) if top.filter.is_empty() => " no jobs",
            Some(_) => " the filter hides every lane",
        };
        screen.render_widget(Paragraph::new(text), area);
        return;
    }
    let room = usize::from(area.height).max(1);
    let place = top.place();
    // The selected lane is always in sight.
    let first = (place + 1).saturating_sub(room);
    let lines: Vec<Line<'_>> = (first..lanes.len())
        .take(room)
        .map(|number| {
            let named = label.columns(&lanes[number].id, &lanes[number].name);
            let line = lane(&named, lanes[number], top, course, width);
            let is_selected = number == place;
            line.style(if is_selected { Modifier::REVERSED } else { Modifier::empty() })
        })
        .collect();
    screen.render_widget(Paragraph::new(lines), area);
}

/// Label of the lanes.
#[derive(Clone, Copy)]
enum Label {
    /// Number and name, of jobs.
    Both,
    /// The name alone in the room of both, of control groups: it is the end of the path that
    /// serves as their number.
    Name,
}

impl Label {
    fn of(lanes: &[&Lane]) -> Self {
        match lanes.iter().any(|lane| lane.id.starts_with('/')) {
            true => Self::Name,
            false => Self::Both,
        }
    }

    fn columns(self, id: &str, name: &str) -> String {
        const WIDE: usize = ID + 1 + NAME;
        match self {
            Self::Both => format!(" {:>ID$} {}", shortened(id, ID), padded(name, NAME)),
            Self::Name => format!(" {}", padded(name, WIDE)),
        }
    }
}

fn lane(label: &str, lane: &Lane, top: &Top, course: usize, width: usize) -> Line<'static> {
    let symbol = |state: Option<State>| match state {
        Some(State::Running) => '█',
        Some(State::Blocked) => '░',
        Some(State::Waiting | State::Empty) => '·',
        Some(State::Ended) => '✓',
        None => ' ',
    };
    let drawn: String = top.course(&lane.id, course).into_iter().map(symbol).collect();
    let color = match lane.state {
        State::Running => Color::Green,
        State::Blocked => Color::Yellow,
        _ => Color::DarkGray,
    };
    let text = format!(
        "{label} {:<STATE$} {:>BANDWIDTH$} ",
        lane.state.name(),
        known(lane.bandwidth, rate),
    );
    let room = width.saturating_sub(width_of(&text) + course + 1);
    Line::from(vec![
        Span::raw(text),
        Span::styled(format!("{drawn:<course$}"), color),
        Span::raw(format!(" {}", shortened(&lane.why, room))),
    ])
}

/// Draws a box of lines in the middle. Lines that are longer than the screen is wide are broken.
fn draw_box(screen: &mut Screen<'_>, title: &str, lines: &[String]) {
    let area = screen.area();
    let longest = lines.iter().map(|line| line.chars().count()).max().unwrap_or(0);
    let width = (longest + 4).min(usize::from(area.width));
    let lines: Vec<Line<'_>> =
        lines.iter().flat_map(|line| broken(line, width.saturating_sub(2))).collect();
    let (width, height) = (width as u16, (lines.len() + 2).min(usize::from(area.height)) as u16);
    let place = Rect {
        x: area.x + (area.width - width) / 2,
        y: area.y + (area.height - height) / 2,
        width,
        height,
    };
    screen.render_widget(Clear, place);
    let block = Block::bordered().title(format!(" {title} "));
    screen.render_widget(Paragraph::new(lines).block(block), place);
}

/// Breaks a line into lines of at most `width` characters.
fn broken(line: &str, width: usize) -> Vec<Line<'static>> {
    let characters: Vec<char> = line.chars().collect();
    characters.chunks(width.max(1)).map(|part| Line::raw(part.iter().collect::<String>())).collect()
}

fn draw_help(screen: &mut Screen<'_>) {
    let lines = HELP.map(|(key, effect)| format!(" {key:<13} {effect}"));
    draw_box(screen, "keys", &lines);
}

fn draw_details(screen: &mut Screen<'_>, top: &Top) {
    let lanes = top.lanes();
    let Some(lane) = lanes.get(top.place()) else { return };
    let known = [("state", lane.state.name().to_owned()), ("why", lane.why.clone())];
    let all = known.into_iter().chain(lane.details.iter().cloned());
    let shown = all.filter(|(_, value)| !value.is_empty());
    let lines: Vec<String> = shown.map(|(name, value)| format!(" {name:<10} {value}")).collect();
    draw_box(screen, &format!("{} {}", lane.id, lane.name), &lines);
}

#[cfg(test)]
mod tests;
