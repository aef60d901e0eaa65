use proptest::prelude::*;

use super::*;

/// Returns the plan for instructions given by their bytes.
fn looks(code: &[&[u8]]) -> Vec<Look> {
    plan(0x1000, code.iter().copied())
}

fn access(distance: i64, bytes: i64, is_store: bool) -> Access {
    Access { instruction: 0, distance, bytes, is_store }
}

/// Returns loads of these sizes at these distances.
fn loads(members: &[(i64, i64)]) -> Look {
    let load = |&(distance, bytes)| access(distance, bytes, false);
    Look::Span(Span::new(&members.iter().map(load).collect::<Vec<_>>()))
}

/// Returns stores of eight bytes at these distances.
fn stores(distances: &[i64]) -> Look {
    let store = |&distance| access(distance, 8, true);
    Look::Span(Span::new(&distances.iter().map(store).collect::<Vec<_>>()))
}

const PUSH_RBX: &[u8] = &[0x53];
const PUSH_R12: &[u8] = &[0x41, 0x54];
const POP_RBX: &[u8] = &[0x5b];
const RET: &[u8] = &[0xc3];
const LOAD_RDI: &[u8] = &[0x48, 0x8b, 0x07]; // mov rax, [rdi]
const LOAD_RDI_8: &[u8] = &[0x48, 0x8b, 0x47, 0x08]; // mov rax, [rdi+8]
const STORE_RDI_16: &[u8] = &[0x48, 0x89, 0x47, 0x10]; // mov [rdi+16], rax
const LOAD_RSI: &[u8] = &[0x8b, 0x0e]; // mov ecx, [rsi]

#[test]
fn pushes_and_pops_follow_the_stack_pointer() {
    let push = [PUSH_RBX, LOAD_RSI, PUSH_R12, PUSH_RBX];
    let together = stores(&[-8, -16, -24]);
    assert_eq!(looks(&push), [Look::Later, Look::Alone, Look::Later, together]);
    let back = [POP_RBX, RET];
    assert_eq!(looks(&back), [Look::Later, loads(&[(0, 8), (8, 8)])]);
    // sub rsp, 16; mov [rsp+8], rax
    let frame: [&[u8]; 3] = [PUSH_RBX, &[0x48, 0x83, 0xec, 0x10], &[0x48, 0x89, 0x44, 0x24, 0x08]];
    assert_eq!(looks(&frame), [Look::Later, Look::Alone, stores(&[-8, -16])]);
}

#[test]
fn fields_of_a_structure_go_together() {
    let fields = [LOAD_RDI_8, LOAD_RSI, STORE_RDI_16];
    let together = Group::new(&[access(8, 8, false), access(16, 8, true)]);
    assert_eq!(looks(&fields), [Look::Later, Look::Alone, Look::Mixed(together)]);
}

#[test]
fn a_base_that_changes_starts_anew_unless_by_a_constant() {
    let changed: [&[u8]; 3] = [LOAD_RDI, &[0x48, 0x01, 0xc7], LOAD_RDI]; // add rdi, rax
    assert_eq!(looks(&changed), [Look::Alone; 3]);
    let loaded: [&[u8]; 3] = [LOAD_RDI, &[0x48, 0x8b, 0x3f], LOAD_RDI]; // mov rdi, [rdi]
    assert_eq!(looks(&loaded), [Look::Later, loads(&[(0, 8), (0, 8)]), Look::Alone]);
    let half: [&[u8]; 3] = [LOAD_RDI, &[0x83, 0xc7, 0x08], LOAD_RDI]; // add edi, 8
    assert_eq!(looks(&half), [Look::Alone; 3]);
    let known: [&[u8]; 3] = [LOAD_RDI, &[0x48, 0x83, 0xc7, 0x08], LOAD_RDI]; // add rdi, 8
    assert_eq!(looks(&known), [Look::Later, Look::Alone, loads(&[(0, 8), (8, 8)])]);
    // lea rdi, [rdi-8]; mov rdi, rsi
    let copied: [&[u8]; 4] = [LOAD_RDI, &[0x48, 0x8d, 0x7f, 0xf8], LOAD_RDI, &[0x48, 0x89, 0xf7]];
    assert_eq!(looks(&copied)[..3], [Look::Later, Look::Alone, loads(&[(0, 8), (-8, 8)])]);
}

#[test]
fn loads_go_together_as_long_as_no_line_lies_between() {
    // mov rax, [rdi+d]
    let pair = |d: u8| looks(&[LOAD_RDI, &[0x48, 0x8b, 0x87, d, 0, 0, 0]]);
    assert_eq!(pair(0x40), [Look::Later, loads(&[(0, 8), (0x40, 8)])]);
    assert_eq!(pair(0x41), [Look::Alone; 2], "0x3f and 0x80 have a line between them");
    let far: [&[u8]; 3] = [LOAD_RDI, &[0x48, 0x8b, 0x47, 0x40], &[0x48, 0x8b, 0x87, 0x80, 0, 0, 0]];
    assert_eq!(looks(&far)[2], loads(&[(0, 8), (0x40, 8), (0x80, 8)]));
}

#[test]
fn loads_and_stores_go_together_within_the_length_of_a_line() {
    // mov [rdi+d], rax
    let pair = |d: u8| looks(&[LOAD_RDI, &[0x48, 0x89, 0x47, d]]);
    let mixed = |d| Look::Mixed(Group::new(&[access(0, 8, false), access(d, 8, true)]));
    assert_eq!(pair(0x3f), [Look::Later, mixed(0x3f)]);
    assert_eq!(pair(0x40), [Look::Alone; 2]);
}

#[test]
fn globals_go_together_on_one_line_alone() {
    // At 0x1000: mov eax, [rip+0x32] is 0x1038; at 0x1006: mov eax, [rip+d].
    let pair =
        |d: u8| -> Vec<Look> { looks(&[&[0x8b, 0x05, 0x32, 0, 0, 0], &[0x8b, 0x05, d, 0, 0, 0]]) };
    assert_eq!(pair(0x30), [Look::Later, loads(&[(0x1038, 4), (0x103c, 4)])]);
    assert_eq!(pair(0x34), [Look::Alone; 2], "0x1040 is on the next line");
    // A vector at 0x1040, and a word stored there: movups xmm0, [rip+0x39]; mov [rip+0x33], eax
    let both: [&[u8]; 2] = [&[0x0f, 0x10, 0x05, 0x39, 0, 0, 0], &[0x89, 0x05, 0x33, 0, 0, 0]];
    assert_eq!(looks(&both), [loads(&[(0x1040, 16)]), Look::Alone]);
    // The same address behind fs is another one.
    let local: [&[u8]; 2] =
        [&[0x8b, 0x04, 0x25, 0, 0, 0, 0], &[0x64, 0x8b, 0x04, 0x25, 0, 0, 0, 0]];
    assert_eq!(looks(&local), [Look::Alone; 2]);
}

#[test]
fn what_is_not_plain_keeps_its_own_callback() {
    let doubtful: [&[u8]; 8] = [
        &[0x48, 0xa5],             // movsq
        &[0x48, 0x0f, 0xa3, 0x07], // bt [rdi], rax
        &[0xf0, 0x48, 0x01, 0x07], // lock add [rdi], rax
        &[0x48, 0x87, 0x07],       // xchg [rdi], rax
        &[0x48, 0x0f, 0xb1, 0x07], // cmpxchg [rdi], rax
        &[0x67, 0x8b, 0x07],       // mov eax, [edi]
        &[0x0f, 0x18, 0x07],       // prefetchnta [rdi]
        &[0x48, 0xff, 0x37],       // push [rdi]
    ];
    for bytes in doubtful {
        assert_eq!(looks(&[LOAD_RDI, bytes]), [Look::Alone; 2], "{bytes:02x?}");
    }
}

#[test]
fn vectors_go_together() {
    const VPADDQ: &[u8] = &[0xc5, 0xfd, 0xd4, 0x00]; // vpaddq ymm0, ymm0, [rax]
    const VPADDQ_32: &[u8] = &[0xc5, 0xfd, 0xd4, 0x40, 0x20]; // vpaddq ymm0, ymm0, [rax+32]
    const MOVUPS: &[u8] = &[0x0f, 0x10, 0x07]; // movups xmm0, [rdi]
    const ADDSD: &[u8] = &[0xf2, 0x0f, 0x58, 0x47, 0x10]; // addsd xmm0, [rdi+16]
    let both = loads(&[(0, 32), (32, 32)]);
    assert_eq!(looks(&[VPADDQ, VPADDQ_32]), [Look::Later, both]);
    assert_eq!(looks(&[MOVUPS]), [loads(&[(0, 16)])]);
    assert_eq!(looks(&[MOVUPS, ADDSD]), [Look::Later, loads(&[(0, 16), (16, 8)])]);
    assert_eq!(looks(&[ADDSD]), [Look::Alone]);
    // movups [rdi], xmm0 modifies what addsd reads.
    assert_eq!(looks(&[ADDSD, &[0x0f, 0x11, 0x07]])[0], Look::Alone);
    // vpmaskmovd ymm0, ymm1, [rdi]; vpgatherdd ymm0, [rdi+ymm0*4], ymm1
    for partial in [&[0xc4, 0xe2, 0x75, 0x8c, 0x07][..], &[0xc4, 0xe2, 0x75, 0x90, 0x04, 0x87]] {
        assert_eq!(looks(&[MOVUPS, partial])[1], Look::Alone, "{partial:02x?}");
    }
}

#[test]
fn a_vector_operand_is_looked_at_once() {
    let mut operand = Operand::default();
    let mut first = |address: u64, beyond: u64| {
        let first = !operand.continues(address, 8);
        if first {
            operand.begin(address, beyond);
        }
        first
    };
    let pieces = |at: u64| (0..4).map(move |piece| at + 8 * piece);
    assert_eq!(pieces(64).map(|at| first(at, 24)).collect::<Vec<_>>(), [true, false, false, false]);
    // The next one, one that overlaps it, and the same once more.
    for at in [96, 97, 97] {
        assert!(first(at, 24), "{at}");
        assert!(!pieces(at).skip(1).any(|at| first(at, 24)), "{at}");
    }
    // After a fault the operand is accessed anew.
    assert!(first(512, 24) && !first(520, 24) && first(512, 24));
}

#[test]
fn bytes_that_are_no_instruction_end_what_is_known() {
    let unknown: [&[u8]; 3] = [LOAD_RDI, &[0x06], LOAD_RDI];
    assert_eq!(looks(&unknown), [Look::Alone; 3]);
    assert_eq!(looks(&[&[], &[]]), [Look::Alone; 2], "an emulator that does not tell");
}

#[test]
fn more_than_there_is_room_for_become_two_groups() {
    // One store among loads: six of them go together. mov [rdi], rax
    let mixed: Vec<&[u8]> = [&[0x48, 0x89, 0x07][..]].into_iter().chain([LOAD_RDI; 7]).collect();
    let looks_mixed = looks(&mixed);
    assert!(matches!(looks_mixed[5], Look::Mixed(_)), "{looks_mixed:?}");
    assert!(matches!(looks_mixed[7], Look::Span(_)), "{looks_mixed:?}");
    // 33 pushes are 256 bytes apart.
    let pushes = looks(&[PUSH_RBX; 33]);
    assert_eq!(pushes[31], stores(&(1..=32).map(|n| -8 * n).collect::<Vec<_>>()));
    assert_eq!(pushes[32], Look::Alone);
}

proptest! {
    /// The simulated lines and their stores are those of the members, wherever they are, with the
    /// line of the last one last.
    #[test]
    fn a_mixed_group_looks_at_its_members_lines(
        first in 0_i64..64,
        others in proptest::collection::vec((0_i64..64, any::<bool>()), 1..Group::MEMBERS - 1),
        origin in (1_u64 << 20)..(1 << 46),
    ) {
        let all = [vec![(first, true), (first, false)], others].concat();
        let members: Vec<Access> =
            all.iter().map(|(distance, is_store)| access(distance - 200, 8, *is_store)).collect();
        let address = |access: &Access| origin.wrapping_add_signed(access.distance);
        let own = address(members.last().unwrap());
        let group = Group::new(&members);
        let mut expected: Vec<(u64, u64)> = Vec::new();
        for member in members.iter().rev() {
            let (line, store) = (address(member) / 64, u64::from(member.is_store));
            match expected.iter_mut().find(|(other, _)| *other == line) {
                Some((_, stores)) => *stores |= store,
                None => expected.push((line, store)),
            }
        }
        expected.reverse();
        if group.is_on_one_line(own) {
            prop_assert_eq!(expected, [(own / 64, 1)]);
        } else {
            let lines = group.on_two_lines(own).map(|(address, store)| (address / 64, store));
            prop_assert_eq!(expected, lines);
        }
    }

    /// The lines of accesses of one kind, in whatever order they fit, are all that any piece of
    /// theirs touches, with the line of the last piece last.
    #[test]
    fn a_span_looks_at_the_lines_of_all_pieces(
        offered in proptest::collection::vec((0_i64..300, 0_u32..4), 1..20),
        is_store: bool,
        origin in (1_u64 << 20)..(1 << 46),
    ) {
        let somewhere = (Some(0), None, 1, Register::None);
        let mut members: Vec<Access> = Vec::new();
        for (distance, size) in offered {
            let next = access(distance - 150, 4 << size, is_store);
            if members.is_empty() || fits(somewhere, &members, &next) {
                members.push(next);
            }
        }
        let span = Span::new(&members);
        let line = |distance: i64| origin.wrapping_add_signed(distance) / 64;
        let mut expected: Vec<u64> = members
            .iter()
            .flat_map(|access| (access.distance..=access.end()).step_by(8))
            .map(line)
            .collect();
        expected.sort_unstable();
        expected.dedup();
        let own = members.last().unwrap();
        expected.retain(|other| *other != line(own.end()));
        expected.push(line(own.end()));
        let address = origin.wrapping_add_signed(own.distance);
        prop_assert_eq!(span.lines(address).collect::<Vec<_>>(), expected.clone());
        prop_assert_eq!(span.is_on_one_line(address), expected.len() == 1);
        prop_assert_eq!(span.stores() == 1, is_store);
        prop_assert_eq!(span.operand() as i64, own.end() - own.distance);
    }

    #[test]
    fn any_bytes_are_planned(
        code in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..15), 0..20),
    ) {
        let looks = plan(0, code.iter().map(Vec::as_slice));
        prop_assert_eq!(looks.len(), code.len());
        // Every access that is left for later has a later one.
        let last = looks.iter().rposition(|look| *look == Look::Later);
        let group = looks.iter().rposition(|look| matches!(look, Look::Span(_) | Look::Mixed(_)));
        prop_assert!(last < group || last.is_none());
    }
}
