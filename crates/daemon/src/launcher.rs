//! Commands of supervisors, and the files that they start with.

use std::io;

use memweir_linux::Launch;

use crate::attempt::Order;
use crate::profiles::Watch;
use crate::protocol::Work;
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

/// Returns the work of a start, with the variables that tell the job its place.
fn work(begun: &Begun) -> Work {
    let mut work = begun.work.clone();
    let mut set = |name: &str, value: String| {
        work.environment.push((name.into(), value.as_str().into()));
    };
    set("MEMWEIR_JOB_ID", begun.job.id.to_string());
    if let Some(array) = begun.job.array {
        set("MEMWEIR_ARRAY_ID", array.array.to_string());
        set("MEMWEIR_ARRAY_INDEX", array.index.to_string());
    }
    work
}
