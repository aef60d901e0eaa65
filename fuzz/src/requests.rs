//! Lines from other processes: requests to the daemon, which any user of the machine may send, and
//! the answers of policy programs.

use memweir_daemon::protocol::{parse_request, write_request};
use memweir_policy::protocol::PolicyAnswer;

use crate::Seeds::Texts;
use crate::{Target, text};

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

pub(crate) static POLICY_ANSWERS: Target = Target::new(
    "policy-answers",
    policy_answers,
    &[Texts(&[
        "{\"jobs\": [3, 1]}\n",
        r#"{"jobs":[],"target":2.5e9}"#,
        r#"{"error":"the model has no such job"}"#,
        r#"{"jobs":[0,4294967295],"target":null}"#,
        r#"{"jobs":[1],"error":"both"}"#,
    ])],
);

fn policy_answers(data: &[u8]) {
    text(data, |line| {
        if let Ok(answer) = PolicyAnswer::parse(line) {
            assert_eq!(PolicyAnswer::parse(&answer.line()), Ok(answer));
        }
    });
}
