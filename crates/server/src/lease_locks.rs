//! A lease of etcd holds a lock of its own, so that it survives its node as holds do: it is
//! recorded at the keepers before the client is informed of it, a custodian serves it when the node
//! is lost, and keep-alives go on at any member. No client can use or see such a lock.

use crate::leases::SessionId;

/// The beginning of the names of these locks. No name of a client begins so.
const PREFIX: &[u8] = b"\0lease/";

/// The name of a lease's own lock.
pub(crate) fn name_of(session: SessionId) -> Vec<u8> {
    [PREFIX, format!("{:x}", session.0).as_bytes()].concat()
}

/// Whether a name is that of a lease's own lock.
pub(crate) fn is_reserved(name: &[u8]) -> bool {
    name.starts_with(PREFIX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::leases::check_name;

    #[test]
    fn a_leases_own_lock_has_a_name_that_no_client_can_use() {
        for session in [1, -1, i64::MAX, i64::MIN] {
            let name = name_of(SessionId(session));
            assert!(is_reserved(&name) && check_name(&name).is_err());
        }
        assert_ne!(name_of(SessionId(1)), name_of(SessionId(-1)));
    }
}
