use proptest::prelude::*;

use super::*;

/// Returns the plan for instructions given by their bytes.
fn looks(code: &[&[u8]]) -> Vec<Look> {
    plan(0x1000, code.iter().copied())
}

/// Returns a group of accesses at these distances and of these kinds, one for a store.
fn group(members: &[(i64, u64)]) -> Look {
    let access = |&(distance, store)| Access { instruction: 0, distance, is_store: store == 1 };
    Look::Together(Group::new(&members.iter().map(access).collect::<Vec<_>>()))
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
    let together = group(&[(-8, 1), (-16, 1), (-24, 1)]);
    assert_eq!(looks(&push), [Look::Later, Look::Alone, Look::Later, together]);
    let back = [POP_RBX, RET];
    assert_eq!(looks(&back), [Look::Later, group(&[(0, 0), (8, 0)])]);
    // sub rsp, 16; mov [rsp+8], rax
    let frame: [&[u8]; 3] = [PUSH_RBX, &[0x48, 0x83, 0xec, 0x10], &[0x48, 0x89, 0x44, 0x24, 0x08]];
    assert_eq!(looks(&frame), [Look::Later, Look::Alone, group(&[(-8, 1), (-16, 1)])]);
}

#[test]
fn fields_of_a_structure_go_together() {
    let fields = [LOAD_RDI_8, LOAD_RSI, STORE_RDI_16];
    assert_eq!(looks(&fields), [Look::Later, Look::Alone, group(&[(8, 0), (16, 1)])]);
}

#[test]
fn a_base_that_changes_starts_anew_unless_by_a_constant() {
    let changed: [&[u8]; 3] = [LOAD_RDI, &[0x48, 0x01, 0xc7], LOAD_RDI]; // add rdi, rax
    assert_eq!(looks(&changed), [Look::Alone; 3]);
    let loaded: [&[u8]; 3] = [LOAD_RDI, &[0x48, 0x8b, 0x3f], LOAD_RDI]; // mov rdi, [rdi]
    assert_eq!(looks(&loaded), [Look::Later, group(&[(0, 0), (0, 0)]), Look::Alone]);
    let half: [&[u8]; 3] = [LOAD_RDI, &[0x83, 0xc7, 0x08], LOAD_RDI]; // add edi, 8
    assert_eq!(looks(&half), [Look::Alone; 3]);
    let known: [&[u8]; 3] = [LOAD_RDI, &[0x48, 0x83, 0xc7, 0x08], LOAD_RDI]; // add rdi, 8
    assert_eq!(looks(&known), [Look::Later, Look::Alone, group(&[(0, 0), (8, 0)])]);
    // lea rdi, [rdi-8]; mov rdi, rsi
    let copied: [&[u8]; 4] = [LOAD_RDI, &[0x48, 0x8d, 0x7f, 0xf8], LOAD_RDI, &[0x48, 0x89, 0xf7]];
    assert_eq!(looks(&copied)[..3], [Look::Later, Look::Alone, group(&[(0, 0), (-8, 0)])]);
}

#[test]
fn what_is_a_line_apart_stays_apart() {
    let far: [&[u8]; 2] = [LOAD_RDI, &[0x48, 0x8b, 0x47, 0x40]]; // mov rax, [rdi+64]
    assert_eq!(looks(&far), [Look::Alone; 2]);
    let near: [&[u8]; 2] = [LOAD_RDI, &[0x48, 0x8b, 0x47, 0x3f]]; // mov rax, [rdi+63]
    assert_eq!(looks(&near), [Look::Later, group(&[(0, 0), (63, 0)])]);
}

#[test]
fn globals_go_together_on_one_line_alone() {
    // At 0x1000: mov eax, [rip+0x32] is 0x1038; at 0x1006: mov eax, [rip+d].
    let pair =
        |d: u8| -> Vec<Look> { looks(&[&[0x8b, 0x05, 0x32, 0, 0, 0], &[0x8b, 0x05, d, 0, 0, 0]]) };
    assert_eq!(pair(0x30), [Look::Later, group(&[(0x1038, 0), (0x103c, 0)])]);
    assert_eq!(pair(0x34), [Look::Alone; 2], "0x1040 is on the next line");
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
fn vectors_are_looked_at_in_pieces() {
    // vpaddq ymm0, ymm0, [rax]; movups xmm0, [rdi]; movsd xmm0, [rdi]
    let vectors: [&[u8]; 3] =
        [&[0xc5, 0xfd, 0xd4, 0x00], &[0x0f, 0x10, 0x07], &[0xf2, 0x0f, 0x10, 0x07]];
    assert_eq!(looks(&vectors), [Look::Pieces, Look::Pieces, Look::Alone]);
}

#[test]
fn bytes_that_are_no_instruction_end_what_is_known() {
    let unknown: [&[u8]; 3] = [LOAD_RDI, &[0x06], LOAD_RDI];
    assert_eq!(looks(&unknown), [Look::Alone; 3]);
    assert_eq!(looks(&[&[], &[]]), [Look::Alone; 2], "an emulator that does not tell");
}

#[test]
fn more_than_there_is_room_for_become_two_groups() {
    let many = [PUSH_RBX; 8];
    let looks = looks(&many);
    let place = |look: &Look| matches!(look, Look::Together(_));
    assert_eq!(looks.iter().position(place), Some(5));
    assert_eq!(looks.iter().rposition(place), Some(7));
    assert!((0..8).all(|n| n == 5 || n == 7 || looks[n] == Look::Later));
}

proptest! {
    /// For any members at any addresses, the simulated lines and their stores are those of the
    /// members, with the last member's line last.
    #[test]
    fn a_group_looks_at_its_members_lines(
        first in 0_i64..64,
        others in proptest::collection::vec((0_i64..64, any::<bool>()), 1..MEMBERS),
        first_is_store: bool,
        origin in (1_u64 << 20)..(1 << 46),
    ) {
        let all = [vec![(first, first_is_store)], others].concat();
        let members: Vec<Access> = all
            .iter()
            .map(|(distance, is_store)| Access {
                instruction: 0,
                distance: distance - 200,
                is_store: *is_store,
            })
            .collect();
        let address = |access: &Access| origin.wrapping_add_signed(access.distance);
        let own = address(members.last().unwrap());
        let group = Group::from_word(Group::new(&members).word());
        let mut expected: Vec<(u64, u64)> = Vec::new();
        for member in members.iter().rev() {
            let (line, store) = (address(member) / LINE, u64::from(member.is_store));
            match expected.iter_mut().find(|(other, _)| *other == line) {
                Some((_, stores)) => *stores |= store,
                None => expected.push((line, store)),
            }
        }
        expected.reverse();
        if group.is_on_one_line(own) {
            prop_assert_eq!(expected, [(own / LINE, group.stores())]);
        } else {
            let lines = group.on_two_lines(own).map(|(address, store)| (address / LINE, store));
            prop_assert_eq!(expected, lines);
        }
    }

    #[test]
    fn any_bytes_are_planned(code in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..15), 0..20)) {
        let looks = plan(0, code.iter().map(Vec::as_slice));
        prop_assert_eq!(looks.len(), code.len());
        // Every access that is left for later has a later one.
        let last = looks.iter().rposition(|look| *look == Look::Later);
        let group = looks.iter().rposition(|look| matches!(look, Look::Together(_)));
        prop_assert!(last < group || last.is_none());
    }
}
