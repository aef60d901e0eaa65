use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::*;

fn queue(cores: u32) -> Queue {
    Queue::new(Capacity { cores, admit: cores })
}

fn job(id: u32) -> Job {
    Job::new(JobId(id), format!("job {id}"), 1000)
}

fn admitted(queue: &mut Queue) -> Vec<u32> {
    std::iter::from_fn(|| queue.admit_next()).map(|id| id.0).collect()
}

fn reason(queue: &Queue, id: u32) -> String {
    queue.reason(JobId(id)).map_or_else(String::new, |reason| reason.to_string())
}

fn end(queue: &mut Queue, id: u32, end: End) {
    let ended = queue.get(JobId(id)).unwrap().ended(end, Moment::default());
    queue.insert(ended);
}

#[test]
fn the_highest_priority_starts_first_and_then_the_oldest() {
    let mut queue = queue(1);
    for (id, priority) in [(1, 0), (2, -1), (3, 5), (4, 5)] {
        queue.insert(Job { priority, ..job(id) });
    }
    let mut order = Vec::new();
    while let Some(id) = queue.admit_next() {
        order.push(id.0);
        end(&mut queue, id.0, End::Exited(0));
    }
    assert_eq!(order, [3, 4, 1, 2]);
}

#[test]
fn a_wide_job_is_not_starved_by_narrow_ones() {
    let mut queue = queue(2);
    queue.insert(job(1));
    queue.insert(Job { cores: 2, ..job(2) });
    queue.insert(job(3));
    assert_eq!(admitted(&mut queue), [1]);
    assert_eq!(reason(&queue, 2), "no free core: 1 of 2 busy");
    assert_eq!(reason(&queue, 3), "job 2 is in front and needs 2 cores");
    end(&mut queue, 1, End::Exited(0));
    assert_eq!(admitted(&mut queue), [2]);
    assert_eq!(reason(&queue, 3), "no free core: 2 of 2 busy");
    queue.insert(Job { cores: 2, priority: 1, ..job(5) });
    assert_eq!(reason(&queue, 3), "no free core: 2 of 2 busy", "the front waits for one as well");
    // A job of the time when there were more cores runs alone.
    queue.insert(Job { cores: 9, priority: 2, ..job(4) });
    end(&mut queue, 2, End::Exited(0));
    assert_eq!(admitted(&mut queue), [4]);
}

#[test]
fn jobs_beyond_the_cores_take_turns_where_more_are_admitted() {
    let mut queue = Queue::new(Capacity { cores: 1, admit: 2 });
    (1..=3).for_each(|id| queue.insert(job(id)));
    assert_eq!(admitted(&mut queue), [1, 2]);
    assert_eq!(reason(&queue, 2), "starts in one of the next quanta");
    assert_eq!(reason(&queue, 3), "no free place: jobs on 2 of 2 cores take turns");
}

#[test]
fn a_dependent_job_waits_for_success() {
    let mut queue = queue(4);
    queue.insert(job(1));
    queue.insert(Job { after: vec![JobId(1)], ..job(2) });
    assert_eq!(admitted(&mut queue), [1]);
    assert_eq!(reason(&queue, 2), "waits for job 1");
    end(&mut queue, 1, End::Exited(1));
    assert!(admitted(&mut queue).is_empty());
    assert!(reason(&queue, 2).contains("job 1, which failed"));
    let again = queue.get(JobId(1)).unwrap().requeued().unwrap();
    queue.insert(again);
    assert_eq!(admitted(&mut queue), [1]);
    end(&mut queue, 1, End::Exited(0));
    assert_eq!(admitted(&mut queue), [2]);
}

#[test]
fn an_admitted_job_waits_again_for_a_requeued_one_unless_it_has_started() {
    let mut queue = queue(2);
    queue.insert(job(1));
    (2..=3).for_each(|id| queue.insert(Job { after: vec![JobId(1)], ..job(id) }));
    assert_eq!(admitted(&mut queue), [1]);
    end(&mut queue, 1, End::Exited(0));
    assert_eq!(admitted(&mut queue), [2, 3]);
    let started = queue.get(JobId(3)).unwrap().starting(0);
    queue.insert(started);
    let again = queue.get(JobId(1)).unwrap().requeued().unwrap();
    queue.insert(again);
    assert!(!queue.is_admitted(JobId(2)) && queue.is_admitted(JobId(3)));
    assert_eq!(reason(&queue, 2), "waits for job 1");
    assert_eq!(queue.busy(), 1);
    assert_eq!(admitted(&mut queue), [1]);
    end(&mut queue, 1, End::Exited(0));
    assert_eq!(admitted(&mut queue), [2]);
}

#[test]
fn a_job_whose_start_never_began_is_admitted_again() {
    let mut queue = queue(1);
    queue.insert(job(1).starting(0));
    queue.insert(job(2));
    assert_eq!(admitted(&mut queue), [] as [u32; 0]);
    queue.insert(job(1).starting(0).pending());
    assert_eq!(admitted(&mut queue), [1]);
}

#[test]
fn an_array_runs_as_many_jobs_as_its_limit() {
    let mut queue = queue(8);
    let array = |index| Some(Membership { array: JobId(1), index, limit: Some(2) });
    (1..=4).for_each(|id| queue.insert(Job { array: array(id), ..job(id) }));
    queue.insert(job(5));
    assert_eq!(admitted(&mut queue), [1, 2, 5]);
    assert_eq!(reason(&queue, 2), "starts in one of the next quanta");
    assert_eq!(reason(&queue, 3), "array limit: 2 of 2 run");
    end(&mut queue, 2, End::Exited(1));
    assert_eq!(admitted(&mut queue), [3]);
}

#[test]
fn held_jobs_wait_until_they_are_released() {
    let mut queue = queue(1);
    queue.insert(job(1).held("ann").unwrap());
    queue.insert(job(2));
    assert_eq!(reason(&queue, 1), "held by ann");
    assert_eq!(admitted(&mut queue), [2]);
    let released = queue.get(JobId(1)).unwrap().released().unwrap();
    queue.insert(released);
    assert_eq!(reason(&queue, 1), "no free core: 1 of 1 busy");
    // A job that is held between its admission and its first quantum gives up its place.
    let held = queue.get(JobId(2)).unwrap().held("ann").unwrap();
    queue.insert(held);
    assert!(!queue.is_admitted(JobId(2)));
    assert_eq!(admitted(&mut queue), [1]);
}

#[test]
fn a_draining_queue_starts_nothing() {
    let mut queue = queue(2);
    queue.insert(job(1));
    queue.set_draining(true);
    assert!(admitted(&mut queue).is_empty());
    assert_eq!(reason(&queue, 1), "the queue drains");
    queue.set_draining(false);
    assert_eq!(admitted(&mut queue), [1]);
}

#[test]
fn an_admitted_job_that_has_not_started_waits_for_the_end_of_draining() {
    let mut queue = Queue::new(Capacity { cores: 1, admit: 2 });
    (1..=2).for_each(|id| queue.insert(job(id)));
    assert_eq!(admitted(&mut queue), [1, 2]);
    let started = queue.get(JobId(1)).unwrap().starting(0);
    queue.insert(started);
    queue.set_draining(true);
    assert!(queue.is_admitted(JobId(1)) && !queue.is_admitted(JobId(2)));
    assert_eq!((reason(&queue, 2), queue.busy()), ("the queue drains".to_owned(), 1));
    queue.set_draining(false);
    assert_eq!(admitted(&mut queue), [2]);
}

#[test]
fn requests_must_fit_the_state() {
    let pending = job(1);
    let now = Moment { wall_ms: 9, uptime_ms: 4 };
    let running = pending.starting(5).running();
    assert_eq!(running.attempt, 1);
    let ended = running.ended(End::Exited(3), now);
    assert!(pending.requeued().is_err() && running.requeued().is_err());
    assert!(running.held("ann").is_err() && ended.held("ann").is_err());
    assert!(pending.released().is_err());
    assert_eq!(
        running.held("ann").unwrap_err().to_string(),
        "job 1 runs: only a pending job can be held"
    );
    assert!(ended.canceled(now).is_err());
    assert_eq!(pending.canceled(now).unwrap().end(), Some(End::Canceled(None)));
    let canceled = running.canceled(now).unwrap();
    assert_eq!(canceled.state, State::Running);
    assert_eq!(canceled.ended(End::Exited(143), now).end(), Some(End::Canceled(Some(143))));
    assert_eq!(canceled.ended(End::Lost(Loss::Restart), now).end(), Some(End::Canceled(None)));
    let again = ended.requeued().unwrap();
    assert_eq!((again.state, again.attempt, again.ended), (State::Pending, 1, None));
}

#[test]
fn each_end_has_an_exit_code_that_tells_success() {
    assert_eq!(End::Exited(0).exit_code(), 0);
    assert_eq!(End::Exited(3).exit_code(), 3);
    assert_eq!(End::Canceled(Some(3)).exit_code(), 3);
    for (end, code) in [
        (End::Canceled(None), 143),
        (End::Canceled(Some(0)), 143),
        (End::OutOfMemory, 137),
        (End::Lost(Loss::Files), 137),
    ] {
        assert_eq!(end.exit_code(), code, "{end:?}");
    }
}

fn ended_at(id: u32, uptime_ms: u64) -> Job {
    job(id).ended(End::Exited(0), Moment { wall_ms: 0, uptime_ms })
}

fn prunable(queue: &Queue, jobs: usize, age_ms: u64, now_ms: u64) -> Vec<u32> {
    let pruned = queue.prunable(Retention { jobs, age_ms }, now_ms);
    pruned.into_iter().map(|id| id.0).collect()
}

#[test]
fn jobs_that_ended_first_or_long_ago_are_pruned() {
    let mut queue = queue(1);
    for (id, ended) in [(1, 50), (2, 10), (3, 30), (5, 40)] {
        queue.insert(ended_at(id, ended));
    }
    queue.insert(job(4));
    queue.insert(job(6));
    assert_eq!(prunable(&queue, 2, 1_000, 60), [2, 3]);
    assert_eq!(prunable(&queue, 9, 25, 60), [2, 3]);
    assert_eq!(prunable(&queue, 0, 0, 60), [1, 2, 3, 5]);
    assert!(prunable(&queue, 4, 50, 60).is_empty());
    // A clock that goes back removes nothing.
    assert!(prunable(&queue, 9, 25, 0).is_empty());
    queue.remove(JobId(4));
    assert!(queue.get(JobId(4)).is_some(), "it has not ended");
}

#[test]
fn what_others_wait_for_and_the_highest_number_are_kept() {
    let mut queue = queue(1);
    queue.insert(ended_at(1, 1));
    queue.insert(Job { after: vec![JobId(1)], ..ended_at(2, 2) });
    queue.insert(Job { after: vec![JobId(2)], ..job(3) });
    queue.insert(ended_at(4, 3));
    queue.insert(Job { after: vec![JobId(4)], ..ended_at(5, 4) });
    queue.insert(ended_at(6, 5));
    // 3 waits for 2, which may be requeued and would wait for 1 then.
    assert_eq!(prunable(&queue, 0, 0, 99), [4, 5]);
    assert_eq!(queue.next_id(), JobId(7));
}

/// One step of a random history.
#[derive(Clone, Debug)]
enum Step {
    Submit {
        cores: u32,
        priority: i32,
        after: Option<u32>,
        limit: Option<u32>,
    },
    Admit,
    Start(u32),
    /// The last start never began.
    Undo(u32),
    End(u32, i32),
    Hold(u32),
    Release(u32),
    Cancel(u32),
    Requeue(u32),
    Drain(bool),
    Prune(usize),
}

fn step() -> impl Strategy<Value = Step> {
    let id = || 1..12u32;
    prop_oneof![
        4 => (1..4u32, -2..3i32, proptest::option::of(id()), proptest::option::of(1..3u32))
            .prop_map(|(cores, priority, after, limit)| {
                Step::Submit { cores, priority, after, limit }
            }),
        4 => Just(Step::Admit),
        4 => id().prop_map(Step::Start),
        1 => id().prop_map(Step::Undo),
        4 => (id(), 0..2i32).prop_map(|(id, code)| Step::End(id, code)),
        1 => id().prop_map(Step::Hold),
        1 => id().prop_map(Step::Release),
        1 => id().prop_map(Step::Cancel),
        1 => id().prop_map(Step::Requeue),
        1 => any::<bool>().prop_map(Step::Drain),
        1 => (0..4usize).prop_map(Step::Prune),
    ]
}

/// A queue, and what the loop that runs its jobs knows.
struct Run {
    queue: Queue,
    /// Jobs that the loop was given and has neither started nor lost again.
    given: BTreeSet<JobId>,
}

impl Run {
    fn new() -> Self {
        Self { queue: queue(3), given: BTreeSet::new() }
    }

    fn step(&mut self, step: Step) {
        if matches!(step, Step::Admit) {
            self.given.extend(self.queue.admit_next());
        }
        take(&mut self.queue, &self.given, step);
        let is_pending = |id: &JobId| self.queue.get(*id).map(|j| j.state) == Some(State::Pending);
        self.given.retain(|id| self.queue.is_admitted(*id) && is_pending(id));
    }
}

/// Carries a step out, as the service would.
fn take(queue: &mut Queue, given: &BTreeSet<JobId>, step: Step) {
    let get = |id: u32| queue.get(JobId(id)).cloned();
    let changed = match step {
        Step::Submit { cores, priority, after, limit } => {
            let id = queue.next_id();
            let after = after.map(JobId).filter(|after| queue.get(*after).is_some());
            let array = limit.map(|_| Membership { array: JobId(1), index: id.0, limit });
            Some(Job { cores, priority, after: after.into_iter().collect(), array, ..job(id.0) })
        }
        Step::Admit => None,
        Step::Start(id) => get(id).filter(|job| given.contains(&job.id)).map(|j| j.starting(0)),
        Step::Undo(id) => {
            get(id).filter(|job| job.state == State::Starting).map(|job| job.pending())
        }
        Step::End(id, code) => {
            let runs = |job: &Job| job.state == State::Starting;
            get(id).filter(runs).map(|job| job.ended(End::Exited(code), Moment::default()))
        }
        Step::Hold(id) => get(id).and_then(|job| job.held("ann").ok()),
        Step::Release(id) => get(id).and_then(|job| job.released().ok()),
        Step::Cancel(id) => get(id).and_then(|job| job.canceled(Moment::default()).ok()),
        Step::Requeue(id) => get(id).and_then(|job| job.requeued().ok()),
        Step::Drain(draining) => {
            queue.set_draining(draining);
            None
        }
        Step::Prune(jobs) => {
            let retention = Retention { jobs, age_ms: u64::MAX };
            queue.prunable(retention, 0).into_iter().for_each(|id| queue.remove(id));
            None
        }
    };
    changed.into_iter().for_each(|job| queue.insert(job));
}

/// Checks what holds after every step.
fn check(Run { queue, given }: &Run) {
    let admitted: Vec<&Job> = queue.jobs().filter(|job| queue.is_admitted(job.id)).collect();
    let busy: u32 = admitted.iter().map(|job| job.cores).sum();
    assert_eq!(busy, queue.busy());
    assert!(busy <= queue.capacity().admit || admitted.len() == 1, "{busy} cores are taken");
    let pending = queue.jobs().filter(|job| job.state == State::Pending).count();
    assert_eq!(pending, queue.pending());
    let unfinished = queue.jobs().filter(|job| job.end().is_none()).count();
    assert_eq!(unfinished, queue.unfinished(1000) as usize);
    let mut arrays: BTreeMap<JobId, (u32, u32)> = BTreeMap::new();
    for job in &admitted {
        if let Some(Membership { array, limit: Some(limit), .. }) = job.array {
            let (count, largest) = arrays.entry(array).or_default();
            (*count, *largest) = (*count + 1, limit.max(*largest));
        }
    }
    assert!(arrays.values().all(|(count, limit)| count <= limit), "{arrays:?}");
    for job in queue.jobs() {
        let is_known = |id: &JobId| queue.get(*id).is_some();
        assert!(job.after.iter().all(is_known), "{job:?} waits for a job that was pruned");
        let waits = job.after.iter().any(|id| !queue.get(*id).is_some_and(Job::has_succeeded));
        let pending = job.state == State::Pending;
        assert!(!(pending && waits && queue.is_admitted(job.id)), "{job:?}");
        assert_eq!(queue.reason(job.id).is_some(), job.state == State::Pending, "{job:?}");
        assert!(!matches!(job.state, State::Starting) || queue.is_admitted(job.id));
        assert!(job.end().is_none() || !queue.is_admitted(job.id));
        let starts = given.contains(&job.id) || !queue.is_admitted(job.id);
        assert!(!pending || starts, "the loop would never start {job:?}");
        let drains = pending && queue.is_draining();
        assert!(!(drains && queue.is_admitted(job.id)), "{job:?} starts while the queue drains");
    }
}

proptest! {
    #[test]
    fn every_history_keeps_the_limits(steps in proptest::collection::vec(step(), 0..80)) {
        let mut run = Run::new();
        for step in steps {
            run.step(step);
            check(&run);
        }
    }

    #[test]
    fn every_job_starts_in_the_end(steps in proptest::collection::vec(step(), 0..60)) {
        let mut run = Run::new();
        steps.into_iter().for_each(|step| run.step(step));
        run.step(Step::Drain(false));
        let is_held = |job: &&Job| job.held_by.is_some();
        let held: Vec<JobId> = run.queue.jobs().filter(is_held).map(|job| job.id).collect();
        held.into_iter().for_each(|id| run.step(Step::Release(id.0)));
        // Whatever runs ends, until nothing changes any more.
        for _ in 0..500 {
            let ids: Vec<JobId> = run.queue.jobs().map(|job| job.id).collect();
            ids.iter().for_each(|id| run.step(Step::Start(id.0)));
            ids.iter().for_each(|id| run.step(Step::End(id.0, 0)));
            run.step(Step::Admit);
        }
        for job in run.queue.jobs().filter(|job| job.end().is_none()) {
            let reason = run.queue.reason(job.id).expect("it is pending");
            prop_assert!(
                matches!(reason, Reason::After { .. } | Reason::AfterFailed { .. }),
                "job {} waits: {reason}", job.id
            );
        }
    }
}
