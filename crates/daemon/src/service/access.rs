//! Rights of users.

use memweir_linux::peer::{Credentials, Peer, UserGroup, user_name};

/// The users whom a daemon serves, and those who command all jobs.
#[derive(Debug)]
pub(super) struct Access {
    /// User of the daemon.
    pub(super) owner: u32,
    /// Users who command all jobs, beside root and the owner.
    pub(super) operators: Option<UserGroup>,
}

impl Access {
    /// Returns true if jobs run as other users than the daemon's.
    pub(super) fn changes_user(&self) -> bool {
        self.owner == 0
    }

    /// Returns true if the jobs of a peer can run: the daemon of a user has the rights of that user
    /// alone.
    pub(super) fn runs_jobs_of(&self, peer: Credentials) -> bool {
        self.changes_user() || peer.user == self.owner
    }

    /// Returns the name of the daemon's user.
    pub(super) fn owner(&self) -> String {
        user_name(self.owner)
    }

    /// Returns true if a peer may use this daemon at all. A daemon that is not root's can run jobs
    /// as its own user alone.
    pub(super) fn admits(&self, peer: Credentials) -> bool {
        self.changes_user() || self.is_master(peer)
    }

    /// Returns true for root and the user of the daemon.
    pub(super) fn is_master(&self, peer: Credentials) -> bool {
        peer.is_root() || peer.user == self.owner
    }

    /// Returns true for those who may command all jobs.
    pub(super) fn is_operator(&self, peer: &Peer) -> bool {
        let is_member = |group: &UserGroup| peer.is_in(group.id);
        self.is_master(peer.credentials) || self.operators.as_ref().is_some_and(is_member)
    }

    /// Names those who may command all jobs, behind others.
    pub(super) fn named_operators(&self, others: &[&str]) -> String {
        let owner = (self.owner != 0).then(|| user_name(self.owner));
        let mut names: Vec<String> = others.iter().map(|name| (*name).to_owned()).collect();
        let masters = ["root".to_owned()].into_iter().chain(owner);
        names.extend(masters.filter(|name| !others.contains(&name.as_str())));
        let group = self.operators.as_ref();
        names.extend(group.map(|group| format!("members of the group {}", group.name)));
        match names.split_last() {
            Some((last, [])) => last.clone(),
            Some((last, rest)) => format!("{} and {last}", rest.join(", ")),
            None => String::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROOT: Credentials = Credentials { user: 0, group: 0 };
    const ANN: Credentials = Credentials { user: 4_000_001, group: 4_000_001 };
    const BOB: Credentials = Credentials { user: 4_000_002, group: 4_000_002 };

    #[test]
    fn a_user_has_a_daemon_for_itself_and_root_has_one_for_all() {
        let admitted = |owner| {
            let access = Access { owner, operators: None };
            [ROOT, ANN, BOB].map(|peer| access.admits(peer))
        };
        assert_eq!(admitted(ANN.user), [true, true, false]);
        assert_eq!(admitted(0), [true; 3]);
    }

    #[test]
    fn members_of_the_group_are_operators_and_no_masters() {
        let operators = Some(UserGroup { id: ANN.group, name: "ops".to_owned() });
        let access = Access { owner: 0, operators };
        let operates = [ROOT, ANN, BOB].map(|peer| access.is_operator(&peer.into()));
        assert_eq!(operates, [true, true, false]);
        assert!(!access.is_master(ANN));
        assert_eq!(access.named_operators(&["bob"]), "bob, root and members of the group ops");
    }
}
