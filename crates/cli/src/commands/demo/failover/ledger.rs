//! The accounts, and the rule that protects them: a message with a lower fencing token than the
//! greatest one seen is refused.

/// The number of accounts, and what each has at the beginning.
pub(super) const ACCOUNTS: usize = 10;
pub(super) const DEPOSIT: i64 = 1000;

/// The accounts of the bank.
#[derive(Clone, Debug)]
pub(super) struct Ledger {
    balances: Vec<i64>,
    /// The greatest fencing token seen.
    greatest: u64,
    /// The branch in its critical section, and its fencing token.
    open: Option<(usize, u64)>,
    transfers: u64,
}

/// The message came with a lower fencing token than an earlier one.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Stale;

impl Ledger {
    pub(super) fn new() -> Self {
        Self { balances: vec![DEPOSIT; ACCOUNTS], greatest: 0, open: None, transfers: 0 }
    }

    /// A branch has acquired the lock; returns the balances of two accounts.
    pub(super) fn begin(
        &mut self,
        branch: usize,
        token: u64,
        accounts: [usize; 2],
    ) -> Result<[i64; 2], Stale> {
        if token <= self.greatest {
            return Err(Stale);
        }
        self.greatest = token;
        self.open = Some((branch, token));
        Ok(accounts.map(|account| self.balances.get(account).copied().unwrap_or(0)))
    }

    /// A branch writes the balances that it has computed from what it read.
    pub(super) fn write(
        &mut self,
        token: u64,
        accounts: [usize; 2],
        balances: [i64; 2],
    ) -> Result<(), Stale> {
        if token < self.greatest || self.open.is_none_or(|(_, open)| open != token) {
            return Err(Stale);
        }
        for (account, balance) in accounts.into_iter().zip(balances) {
            if let Some(known) = self.balances.get_mut(account) {
                *known = balance;
            }
        }
        self.open = None;
        self.transfers += 1;
        Ok(())
    }

    /// A branch has given up its critical section.
    pub(super) fn give_up(&mut self, token: u64) {
        if self.open.is_some_and(|(_, open)| open == token) {
            self.open = None;
        }
    }

    /// The branch in its critical section.
    pub(super) fn holder(&self) -> Option<usize> {
        self.open.map(|(branch, _)| branch)
    }

    pub(super) fn transfers(&self) -> u64 {
        self.transfers
    }

    pub(super) fn sum(&self) -> i64 {
        self.balances.iter().sum()
    }

    pub(super) fn expected() -> i64 {
        DEPOSIT * i64::try_from(ACCOUNTS).unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn transfers_in_turn_keep_the_sum() {
        let mut ledger = Ledger::new();
        for token in 1..=3 {
            let [from, to] = ledger.begin(0, token, [0, 1]).expect("a greater token");
            ledger.write(token, [0, 1], [from - 7, to + 7]).expect("still open");
        }
        assert_eq!((ledger.sum(), ledger.transfers()), (Ledger::expected(), 3));
        assert_eq!(ledger.begin(0, 9, [0, 1]), Ok([DEPOSIT - 21, DEPOSIT + 21]));
    }

    /// Without the tokens the second write would undo a part of the first one.
    #[test]
    fn a_late_write_is_refused() {
        let mut ledger = Ledger::new();
        let [from, to] = ledger.begin(0, 1, [0, 1]).expect("the first token");
        let [later, other] = ledger.begin(1, 2, [0, 2]).expect("a greater token");
        assert_eq!(ledger.write(1, [0, 1], [from - 5, to + 5]), Err(Stale));
        ledger.write(2, [0, 2], [later - 5, other + 5]).expect("the greatest token");
        assert_eq!(ledger.begin(0, 2, [0, 1]), Err(Stale));
        assert_eq!(ledger.sum(), Ledger::expected());
    }

    /// The sum tells whether an update was lost: it is not a sum of anything.
    #[test]
    fn a_lost_update_changes_the_sum() {
        let mut ledger = Ledger::new();
        let [old, other] = ledger.begin(0, 1, [0, 1]).expect("the first token");
        ledger.write(1, [0, 1], [old - 5, other + 5]).expect("open");
        let [_, third] = ledger.begin(1, 2, [0, 2]).expect("a greater token");
        ledger.write(2, [0, 2], [old - 5, third + 5]).expect("open");
        assert_eq!(ledger.sum(), Ledger::expected() + 5);
    }
}
