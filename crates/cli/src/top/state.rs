//! The content of the screen, and the keys that change it.

use std::collections::{BTreeMap, VecDeque};

use memweir_watch::State;

use super::frame::{Frame, Lane};

/// Frames that are kept: more than a terminal has columns.
const KEPT: usize = 512;

/// Most columns of the course of a lane.
pub(super) const COURSE: usize = 60;

/// Bounds of the rate.
const SLOWEST: f64 = 1.0 / 16.0;
const FASTEST: f64 = 64.0;

/// A key of the user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Key {
    Letter(char),
    Up,
    Down,
    Enter,
    Escape,
    Backspace,
    /// Ctrl-C.
    Interrupt,
}

/// Effect of a key on the command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Flow {
    GoOn,
    Quit,
}

/// The part of the screen that takes keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    Lanes,
    Help,
    Details,
    /// The filter is being typed.
    Filter,
}

/// Progress of the frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Motion {
    Runs,
    Paused,
    /// The source has no more frames.
    Over,
}

/// Everything that is shown.
#[derive(Clone, Debug)]
pub(super) struct Top {
    pub(super) title: String,
    /// Highest bandwidth that the machine sustains, if known.
    pub(super) peak: Option<f64>,
    /// Only the last one has lanes: a queue may have 100,000.
    frames: VecDeque<Frame>,
    /// States of each lane in the last frames, as [`course`](Self::course) returns them.
    courses: BTreeMap<String, VecDeque<Option<State>>>,
    pub(super) motion: Motion,
    pub(super) mode: Mode,
    pub(super) filter: String,
    /// The selected lane; the first one if absent or gone.
    selected: Option<String>,
    rate: f64,
}

impl Top {
    pub(super) fn new(title: String, peak: Option<f64>) -> Self {
        Self {
            title,
            peak,
            frames: VecDeque::new(),
            courses: BTreeMap::new(),
            motion: Motion::Runs,
            mode: Mode::Lanes,
            filter: String::new(),
            selected: None,
            rate: 1.0,
        }
    }

    /// Shows a frame behind the others.
    pub(super) fn push(&mut self, frame: Frame) {
        if self.frames.len() == KEPT {
            self.frames.pop_front();
        }
        if let Some(last) = self.frames.back_mut() {
            last.lanes = Vec::new();
        }
        let seen = self.frames.len().min(COURSE - 1);
        for course in self.courses.values_mut() {
            course.drain(..(course.len() + 1).saturating_sub(COURSE));
            course.push_back(None);
        }
        for lane in &frame.lanes {
            let course = self.courses.entry(lane.id.clone());
            let course = course.or_insert_with(|| vec![None; seen + 1].into());
            if let Some(state) = course.back_mut() {
                *state = Some(lane.state);
            }
        }
        self.courses.retain(|_, course| course.iter().any(Option::is_some));
        self.frames.push_back(frame);
    }

    /// Notes that there are no more frames.
    pub(super) fn end(&mut self) {
        self.motion = Motion::Over;
    }

    /// Returns true if the source is to be asked for frames.
    pub(super) fn takes_frames(&self) -> bool {
        self.motion == Motion::Runs
    }

    /// Frames per frame of the source's own time.
    pub(super) fn rate(&self) -> f64 {
        self.rate
    }

    /// Returns the last frame.
    pub(super) fn now(&self) -> Option<&Frame> {
        self.frames.back()
    }

    /// Returns the lanes of the last frame that the filter lets through.
    pub(super) fn lanes(&self) -> Vec<&Lane> {
        let wanted = self.filter.to_lowercase();
        let lanes = self.now().into_iter().flat_map(|frame| &frame.lanes);
        let passes = |lane: &&Lane| {
            let texts = [&lane.name, &lane.id, &lane.why, lane.state.name()];
            texts.iter().any(|text| text.to_lowercase().contains(&wanted))
        };
        lanes.filter(passes).collect()
    }

    /// Returns the place of the selected lane among [`lanes`](Self::lanes).
    pub(super) fn place(&self) -> usize {
        let is_selected = |lane: &&Lane| Some(&lane.id) == self.selected.as_ref();
        self.lanes().iter().position(is_selected).unwrap_or(0)
    }

    /// Returns the states of a lane in the last frames, at most [`COURSE`] of them and the oldest
    /// first; `None` where it was not there.
    pub(super) fn course(&self, id: &str, frames: usize) -> Vec<Option<State>> {
        let Some(course) = self.courses.get(id) else { return Vec::new() };
        course.iter().skip(course.len().saturating_sub(frames)).copied().collect()
    }

    /// Returns the bandwidth of the last frames, the oldest first; none if no frame has any.
    pub(super) fn bandwidths(&self, frames: usize) -> Vec<f64> {
        let skipped = self.frames.len().saturating_sub(frames);
        let last = self.frames.iter().skip(skipped).map(|frame| frame.bandwidth);
        match last.clone().any(|bandwidth| bandwidth.is_some()) {
            true => last.map(Option::unwrap_or_default).collect(),
            false => Vec::new(),
        }
    }

    /// Returns the bandwidth that fills the bar: the peak, or the highest that was seen.
    pub(super) fn scale(&self) -> f64 {
        let seen = self.frames.iter().flat_map(|frame| [frame.bandwidth, frame.target]);
        let highest = seen.flatten().fold(0.0, f64::max);
        self.peak.unwrap_or(highest).max(highest)
    }

    /// Obeys a key.
    pub(super) fn key(&mut self, key: Key) -> Flow {
        match (self.mode, key) {
            (_, Key::Interrupt) => return Flow::Quit,
            (Mode::Filter, key) => self.type_filter(key),
            (_, Key::Letter('q')) => return Flow::Quit,
            (Mode::Help | Mode::Details, Key::Escape | Key::Enter) => self.mode = Mode::Lanes,
            (Mode::Help, Key::Letter('?')) => self.mode = Mode::Lanes,
            (_, Key::Letter('?')) => self.mode = Mode::Help,
            (_, Key::Letter('f')) => self.mode = Mode::Filter,
            (_, Key::Letter(' ')) => self.pause(),
            (_, Key::Letter('j') | Key::Down) => self.select(self.place() + 1),
            (_, Key::Letter('k') | Key::Up) => self.select(self.place().saturating_sub(1)),
            (_, Key::Letter('+' | '=')) => self.rate = (self.rate * 2.0).min(FASTEST),
            (_, Key::Letter('-')) => self.rate = (self.rate / 2.0).max(SLOWEST),
            (Mode::Lanes, Key::Enter) if !self.lanes().is_empty() => {
                self.select(self.place());
                self.mode = Mode::Details;
            }
            (Mode::Lanes, Key::Escape) => self.filter.clear(),
            _ => {}
        }
        Flow::GoOn
    }

    fn type_filter(&mut self, key: Key) {
        match key {
            Key::Letter(letter) => self.filter.push(letter),
            Key::Backspace => drop(self.filter.pop()),
            Key::Enter => self.mode = Mode::Lanes,
            Key::Escape => {
                self.filter.clear();
                self.mode = Mode::Lanes;
            }
            Key::Up | Key::Down | Key::Interrupt => {}
        }
    }

    fn pause(&mut self) {
        self.motion = match self.motion {
            Motion::Runs => Motion::Paused,
            Motion::Paused => Motion::Runs,
            Motion::Over => Motion::Over,
        };
    }

    fn select(&mut self, place: usize) {
        let lanes = self.lanes();
        let place = place.min(lanes.len().saturating_sub(1));
        self.selected = lanes.get(place).map(|lane| lane.id.clone());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(lanes: &[(&str, State)]) -> Frame {
        let lane = |(name, state): &(&str, State)| Lane {
            id: (*name).to_owned(),
            name: format!("job-{name}"),
            state: *state,
            bandwidth: None,
            why: String::new(),
            details: Vec::new(),
        };
        Frame { lanes: lanes.iter().map(lane).collect(), ..Frame::default() }
    }

    fn top() -> Top {
        let mut top = Top::new("test".to_owned(), None);
        top.push(frame(&[("1", State::Waiting)]));
        top.push(frame(&[("1", State::Running), ("2", State::Blocked), ("3", State::Waiting)]));
        top
    }

    fn keys(top: &mut Top, keys: &str) {
        for letter in keys.chars() {
            assert_eq!(top.key(Key::Letter(letter)), Flow::GoOn);
        }
    }

    #[test]
    fn the_selection_stays_on_its_lane_and_within_the_list() {
        let mut top = top();
        keys(&mut top, "jjjj");
        assert_eq!(top.place(), 2);
        keys(&mut top, "k");
        assert_eq!(top.place(), 1);
        top.push(frame(&[("2", State::Running), ("3", State::Waiting)]));
        assert_eq!(top.place(), 0, "lane 2 has moved up");
        top.push(frame(&[("3", State::Running)]));
        assert_eq!(top.place(), 0);
    }

    #[test]
    fn a_filter_is_typed_and_taken_away() {
        let mut top = top();
        keys(&mut top, "fBLOq");
        assert!(top.lanes().is_empty(), "`q` is a letter of the filter");
        top.key(Key::Backspace);
        top.key(Key::Enter);
        assert_eq!(top.lanes().len(), 1);
        top.key(Key::Escape);
        assert_eq!(top.lanes().len(), 3);
        keys(&mut top, "f3");
        top.key(Key::Escape);
        assert_eq!((top.mode, top.lanes().len()), (Mode::Lanes, 3));
    }

    #[test]
    fn pause_rate_help_and_details_obey_their_keys() {
        let mut top = top();
        keys(&mut top, " ");
        assert!(!top.takes_frames());
        keys(&mut top, " ++-");
        assert_eq!((top.motion, top.rate()), (Motion::Runs, 2.0));
        keys(&mut top, "++++++++++++");
        assert_eq!(top.rate(), FASTEST);
        keys(&mut top, "?");
        assert_eq!(top.mode, Mode::Help);
        keys(&mut top, "?");
        top.key(Key::Enter);
        assert_eq!(top.mode, Mode::Details);
        top.key(Key::Escape);
        assert_eq!(top.mode, Mode::Lanes);
        top.end();
        keys(&mut top, " ");
        assert_eq!(top.motion, Motion::Over);
        assert_eq!(top.key(Key::Letter('q')), Flow::Quit);
        assert_eq!(top.key(Key::Interrupt), Flow::Quit);
    }

    #[test]
    fn the_course_of_a_lane_has_its_last_frames() {
        let top = top();
        let waiting = Some(State::Waiting);
        assert_eq!(top.course("1", 9), [waiting, Some(State::Running)]);
        assert_eq!(top.course("3", 9), [None, waiting]);
        assert_eq!(top.course("3", 1), [waiting]);
    }

    #[test]
    fn a_course_is_that_of_its_frames_for_as_long_as_it_is_shown() {
        let mut top = Top::new("test".to_owned(), None);
        top.push(frame(&[("old", State::Running)]));
        for _ in 1..COURSE {
            top.push(frame(&[("1", State::Blocked)]));
        }
        let blocked = Some(State::Blocked);
        assert_eq!(top.course("old", 1), [None]);
        assert_eq!(top.course("old", COURSE)[0], Some(State::Running));
        assert_eq!(top.course("1", COURSE)[..2], [None, blocked]);
        top.push(frame(&[("1", State::Running), ("new", State::Waiting)]));
        assert_eq!(top.course("1", COURSE)[COURSE - 2..], [blocked, Some(State::Running)]);
        assert_eq!(top.course("1", 2 * COURSE).len(), COURSE);
        assert_eq!(top.course("new", 2 * COURSE).len(), COURSE);
        assert!(!top.courses.contains_key("old"));
    }

    #[test]
    fn only_the_last_frame_has_lanes() {
        let mut top = top();
        for _ in 0..3 {
            top.push(frame(&[("1", State::Running)]));
        }
        let lanes: Vec<usize> = top.frames.iter().map(|frame| frame.lanes.len()).collect();
        assert_eq!(lanes, [0, 0, 0, 0, 1]);
    }

    #[test]
    fn old_frames_are_forgotten() {
        let mut top = top();
        for number in 0..2 * KEPT {
            top.push(Frame { bandwidth: Some(number as f64), ..Frame::default() });
        }
        assert_eq!(top.bandwidths(usize::MAX).len(), KEPT);
        assert_eq!(top.bandwidths(1), [(2 * KEPT - 1) as f64]);
    }
}
