//! Requests to the daemon: lines that any user of the machine may send.

use memweir_daemon::protocol::{parse_request, write_request};

use crate::Seeds::Texts;
use crate::Target;

pub(crate) static REQUESTS: Target = Target::new(
    "requests",
    requests,
    &[Texts(&[
        r#"{"version":1,"memweir":{"status":{}}}"#,
        r#"{"version":1,"memweir":{"queue":{"which":"unfinished"}}}"#,
        r#"{"version":1,"memweir":{"wait":{"ids":[[1,3],[7,7]],"timeout_ms":100}}}"#,
        r#"{"version":1,"memweir":{"drain":{"drain":"begin"}}}"#,
        r#"{"version":1,"memweir":{"submit":{"name":"a","cores":1,"priority":-1,"after":[[1,2]],
           "initial":"held","array":{"first":1,"last":9,"limit":2},"expected_time_ns":5,
           "expected_bandwidth":1.5e9,"work":{"program":"/bin/sh","argv":["sh",[97,255]],
           "directory":"/","environment":[["A","1"]]}}}}"#,
    ])],
);

fn requests(data: &[u8]) {
    if let Ok(request) = parse_request(data) {
        let written = write_request(&request);
        assert_eq!(parse_request(&written), Ok(request));
    }
}
