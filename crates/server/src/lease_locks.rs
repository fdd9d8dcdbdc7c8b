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

/// Checks a name that a client uses.
///
/// # Errors
///
/// What is wrong with it.
pub(crate) fn check_name(name: &[u8]) -> Result<(), String> {
    if name.len() > mutua_node::MAX_NAME {
        return Err(format!("a name has at most {} bytes", mutua_node::MAX_NAME));
    }
    match is_reserved(name) {
        true => Err("names that begin with a zero byte and `lease/` are reserved".to_owned()),
        false => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_leases_own_lock_has_a_name_that_no_client_can_use() {
        for session in [1, -1, i64::MAX, i64::MIN] {
            let name = name_of(SessionId(session));
            assert!(is_reserved(&name) && check_name(&name).is_err());
        }
        assert_ne!(name_of(SessionId(1)), name_of(SessionId(-1)));
        assert!(check_name(b"lease/1").is_ok() && check_name(&[0]).is_ok());
        assert!(check_name(&vec![b'x'; mutua_node::MAX_NAME + 1]).is_err());
    }
}
