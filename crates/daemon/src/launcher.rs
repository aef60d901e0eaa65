//! Commands of supervisors, and the files that they start with.

use std::io;

use memweir_linux::Launch;

use crate::attempt::Order;
use crate::profiles::Watch;
use crate::protocol::{Text, Work};
use crate::service::{Begun, Service};
use crate::supervisor;

/// Returns the command of the supervisor of a start, whose files it makes. A first run has a watch.
///
/// # Errors
/// The files cannot be made.
pub(crate) fn launch(
    service: &Service,
    begun: &Begun,
    first_run: Option<&Watch>,
) -> io::Result<Launch> {
    let (stdout, stderr) = service.open_logs(begun.job.id, begun.user)?;
    let user = service.changes_user().then_some(begun.user);
    let is_first_run = first_run.is_some();
    begun.attempt.order(&Order { work: work(begun), user, is_first_run })?;
    let base = begun.attempt.base().as_os_str().to_owned();
    let argv = vec!["memweir".into(), supervisor::ARGUMENT.into(), base];
    // This very program, even if its file has been replaced since. It has no environment: the
    // supervisor of a job of root's daemon must not obey variables of another user.
    let silent = Launch::silent("/proc/self/exe".into(), argv)?;
    Ok(Launch { directory: Some("/".into()), stdout, stderr, ..silent })
}

/// Returns the work of a start, with the variables that tell the job its place. A job that was
/// submitted by another one has none of that one's.
fn work(begun: &Begun) -> Work {
    let array = begun.job.array;
    let place = [
        ("MEMWEIR_JOB_ID", Some(begun.job.id.0)),
        ("MEMWEIR_ARRAY_ID", array.map(|array| array.array.0)),
        ("MEMWEIR_ARRAY_INDEX", array.map(|array| array.index)),
    ];
    let mut work = begun.work.clone();
    work.environment.retain(|(name, _)| place.iter().all(|(set, _)| *name != Text::from(*set)));
    let told = place.into_iter().filter_map(|(name, value)| Some((name, value?.to_string())));
    work.environment.extend(told.map(|(name, value)| (Text::from(name), Text::from(value))));
    work
}

#[cfg(test)]
mod tests {
    use memweir_core::JobId;
    use memweir_linux::peer::Credentials;

    use super::*;
    use crate::attempt::{Attempts, Order};
    use crate::protocol::{Array, Request, Submission};
    use crate::service::tests::{open, submission};

    /// Returns the order of the only job of a submission by `user`, in the environment of another
    /// job, to a daemon of `owner`.
    fn order(owner: u32, user: Credentials, array: Option<Array>, watch: Option<&Watch>) -> Order {
        let directory = tempfile::tempdir().unwrap();
        Attempts::new(directory.path()).create().unwrap();
        let service = open(directory.path(), owner);
        let mut submission = Submission { array, ..submission() };
        let of_another = ["MEMWEIR_JOB_ID", "MEMWEIR_ARRAY_ID", "MEMWEIR_ARRAY_INDEX"];
        let variables = of_another.map(|name| (Text::from(name), Text::from("99")));
        submission.work.environment.extend(variables);
        service.handle(&user.into(), Request::Submit(Box::new(submission)));
        service.admit();
        let begun = service.begin(JobId(1)).unwrap();
        launch(&service, &begun, watch).unwrap();
        begun.attempt.read_order().unwrap()
    }

    #[test]
    fn an_order_tells_work_user_and_place_of_a_job() {
        let me = Credentials::of_this_process();
        let ann = Credentials { user: 4_000_001, group: 4_000_001 };
        // Only root can give the logs away.
        let user = if me.is_root() { ann } else { me };
        let work = |more: &[(&str, &str)]| {
            let mut work = submission().work;
            let variable = |(name, value): &(&str, &str)| (Text::from(*name), Text::from(*value));
            work.environment.extend(more.iter().map(variable));
            work
        };
        let job = ("MEMWEIR_JOB_ID", "1");
        let alone = Order { work: work(&[job]), user: Some(user), is_first_run: false };
        assert_eq!(order(0, user, None, None), alone);
        let of_user = Order { user: None, is_first_run: true, ..alone.clone() };
        assert_eq!(order(user.user, user, None, Some(&Watch::default())), of_user);
        let places = [job, ("MEMWEIR_ARRAY_ID", "1"), ("MEMWEIR_ARRAY_INDEX", "5")];
        let array = Some(Array { first: 5, last: 5, limit: None });
        assert_eq!(order(0, user, array, None), Order { work: work(&places), ..alone });
    }
}
