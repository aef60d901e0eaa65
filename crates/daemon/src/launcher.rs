//! Commands of supervisors, and the files that they start with.

use std::io;

use memweir_linux::Launch;

use crate::attempt::Order;
use crate::service::{Begun, Service};
use crate::supervisor;

/// Returns the command of the supervisor of a start, whose files it makes.
///
/// # Errors
/// The files cannot be made.
pub(crate) fn launch(service: &Service, begun: &Begun) -> io::Result<Launch> {
    let (stdout, stderr) = service.open_logs(begun.job.id, begun.user)?;
    begun.attempt.order(&order(begun, service.changes_user()))?;
    let base = begun.attempt.base().as_os_str().to_owned();
    let argv = vec!["memweir".into(), supervisor::ARGUMENT.into(), base];
    // This very program, even if its file has been replaced since. It has no environment: the
    // supervisor of a job of root's daemon must not obey variables of another user.
    let silent = Launch::silent("/proc/self/exe".into(), argv)?;
    Ok(Launch { directory: Some("/".into()), stdout, stderr, ..silent })
}

/// Returns the order of a start: the job's work, with the variables that tell it its place.
fn order(begun: &Begun, changes_user: bool) -> Order {
    let mut work = begun.work.clone();
    let mut set = |name: &str, value: String| {
        work.environment.push((name.into(), value.as_str().into()));
    };
    set("MEMWEIR_JOB_ID", begun.job.id.to_string());
    if let Some(array) = begun.job.array {
        set("MEMWEIR_ARRAY_ID", array.array.to_string());
        set("MEMWEIR_ARRAY_INDEX", array.index.to_string());
    }
    Order { work, user: changes_user.then_some(begun.user) }
}
