use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;

use proptest::prelude::*;

use super::*;

fn refusal(line: &str) -> Refusal {
    parse_request(line.as_bytes()).expect_err("refused")
}

#[test]
fn wrong_lines_are_refused_with_the_reason() {
    let cases = [
        ("", RefusalKind::Malformed, "no request"),
        ("garbage", RefusalKind::Malformed, "no request"),
        ("{}", RefusalKind::Malformed, "version"),
        (r#"{"version":1}"#, RefusalKind::Malformed, "memweir"),
        (r#"{"version":2,"memweir":{"new":{}}}"#, RefusalKind::Version, "speaks version 1"),
        (r#"{"version":1,"memweir":{"stats":{}}}"#, RefusalKind::Malformed, "unknown variant"),
        (r#"{"version":1,"memweir":{"status":{"x":1}}}"#, RefusalKind::Malformed, "unknown field"),
        (r#"{"version":1,"memweir":{"status":{}},"x":1}"#, RefusalKind::Malformed, "unknown field"),
        (r#"{"version":1,"memweir":{"hold":{"ids":[[1]]}}}"#, RefusalKind::Malformed, "length"),
        (r#"{"version":1,"memweir":{"hold":{"ids":[[-1,1]]}}}"#, RefusalKind::Malformed, "-1"),
    ];
    for (line, kind, reason) in cases {
        let refusal = refusal(line);
        assert_eq!(refusal.kind, kind, "{line}");
        assert!(refusal.message.contains(reason), "{line}: {refusal}");
    }
    let long = format!(r#"{{"version":1,"memweir":{{"status":{{}}}}}}{}"#, " ".repeat(MAX_LINE));
    assert!(refusal(&long).message.contains("at most"));
}

#[test]
fn text_that_is_not_utf8_survives() {
    let odd = OsString::from_vec(vec![b'a', 0xff]);
    let text = Text::from(&odd);
    let json = serde_json::to_string(&text).unwrap();
    assert_eq!(json, "[97,255]");
    let back: Text = serde_json::from_str(&json).unwrap();
    assert_eq!(OsString::from(&back), odd);
    assert_eq!(serde_json::to_string(&Text::from("a")).unwrap(), r#""a""#);
}

fn text() -> impl Strategy<Value = Text> {
    proptest::collection::vec(any::<u8>(), 0..6)
        .prop_map(|bytes| Text::from(OsString::from_vec(bytes)))
}

fn submission() -> impl Strategy<Value = Submission> {
    let array = (any::<u32>(), any::<u32>(), any::<Option<u32>>());
    let array = array.prop_map(|(first, last, limit)| Array { first, last, limit });
    (
        any::<Option<String>>(),
        any::<(u32, i32, Option<u64>)>(),
        proptest::collection::vec(any::<(u32, u32)>(), 0..3),
        proptest::option::of(array),
        proptest::collection::vec(text(), 0..4),
        proptest::collection::vec((text(), text()), 0..4),
    )
        .prop_map(|(name, (cores, priority, time), after, array, argv, environment)| {
            Submission {
                name,
                cores,
                priority,
                after: after.into_iter().map(|(a, b)| (JobId(a), JobId(b))).collect(),
                initial: Initial::Held,
                array,
                expected_time_ns: time,
                expected_bandwidth: Some(1.5e9),
                bandwidth_limit: time.map(|_| 2.5e9),
                work: Work {
                    program: Text::from("/bin/true"),
                    argv,
                    directory: Text::from("/"),
                    environment,
                },
            }
        })
}

proptest! {
    #[test]
    fn requests_survive_writing_and_reading(submission in submission()) {
        let request = Request::Submit(Box::new(submission));
        let line = write_request(&request);
        prop_assert_eq!(line.iter().filter(|byte| **byte == b'\n').count(), 1);
        prop_assert_eq!(parse_request(&line).unwrap(), request);
    }

    #[test]
    fn no_line_makes_the_parser_panic(line: Vec<u8>) {
        let _ = parse_request(&line);
    }
}

#[test]
fn the_source_of_figures_names_a_job_where_it_is_one() {
    let of = |source| Expected { time_ns: Some(5), bandwidth: None, source, profile: None };
    for (source, json) in [
        (
            Source::SubmissionAndStore,
            r#"{"time_ns":5,"bandwidth":null,"source":"submission-and-store"}"#,
        ),
        (Source::Job(JobId(7)), r#"{"time_ns":5,"bandwidth":null,"source":"job","job":7}"#),
    ] {
        assert_eq!(serde_json::to_string(&of(source)).unwrap(), json);
        assert_eq!(serde_json::from_str::<Expected>(json).unwrap(), of(source));
    }
}
