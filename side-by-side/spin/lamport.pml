/* Lamport 1978 with three processes, as crates/algorithms/src/mutexes/lamport.rs has it: the same
 * variables, the same messages, one step for each handler, links that keep the order. So both tools
 * must find the same number of states.
 *
 * One process of Spin's plays all three: what Spin would add, a program counter for each, is no
 * state of the algorithm.
 */
#ifndef ENTRIES
#define ENTRIES 1
#endif
#define N 3
#define AT(i, j) ((i) * N + (j))

mtype = { request, reply, release };

#define OUTSIDE 0
#define REQUESTING 1
#define INSIDE 2

byte clock[N];
byte phase[N];
byte entered[N];
/* The time of j's request in i's queue; 0: none. */
byte queue[9];
bit missing[9];
byte owed[9];
/* From i to j: kind, time of the request, sender's clock. */
chan link[9] = [5] of { mtype, byte, byte };

hidden mtype kind;
hidden byte time;
hidden byte sent;
hidden byte other;

/* Whether i's request is the first in i's queue, and i has heard something later from everyone. */
#define BEFORE(i, j) (queue[AT(i, j)] != 0 && (queue[AT(i, j)] < queue[AT(i, i)] || \
                      (queue[AT(i, j)] == queue[AT(i, i)] && (j) < (i))))
#define HEARD_ALL(i) (!missing[AT(i, 0)] && !missing[AT(i, 1)] && !missing[AT(i, 2)])
#define NOBODY_INSIDE (phase[0] != INSIDE && phase[1] != INSIDE && phase[2] != INSIDE)

inline enter_if_first(i) {
	if
	:: phase[i] == REQUESTING && HEARD_ALL(i) && !BEFORE(i, 0) && !BEFORE(i, 1) && !BEFORE(i, 2) ->
		assert(NOBODY_INSIDE);
		phase[i] = INSIDE
	:: else
	fi
}

inline ask(i) {
	d_step {
		phase[i] == OUTSIDE && entered[i] < ENTRIES ->
		entered[i]++;
		clock[i]++;
		phase[i] = REQUESTING;
		queue[AT(i, i)] = clock[i];
		other = 0;
		do
		:: other == N -> break
		:: other < N && other == i -> other++
		:: other < N && other != i ->
			owed[AT(i, other)]++;
			missing[AT(i, other)] = 1;
			link[AT(i, other)]!request(clock[i], clock[i]);
			other++
		od;
		other = 0
	}
}

inline leave(i) {
	d_step {
		phase[i] == INSIDE ->
		phase[i] = OUTSIDE;
		queue[AT(i, i)] = 0;
		other = 0;
		do
		:: other == N -> break
		:: other < N && other == i -> other++
		:: other < N && other != i ->
			link[AT(i, other)]!release(0, clock[i]);
			other++
		od;
		other = 0
	}
}

inline receive(i, j) {
	d_step {
		link[AT(j, i)]?kind(time, sent) ->
		if
		:: clock[i] < sent + 1 -> clock[i] = sent + 1
		:: else
		fi;
		if
		:: kind == request ->
			queue[AT(i, j)] = time;
			link[AT(i, j)]!reply(0, clock[i])
		:: kind == reply ->
			owed[AT(i, j)]--
		:: kind == release ->
			queue[AT(i, j)] = 0;
			enter_if_first(i)
		fi;
		/* Any message with a later timestamp will do. */
		if
		:: phase[i] == REQUESTING &&
		   (sent > queue[AT(i, i)] || (sent == queue[AT(i, i)] && j > i)) ->
			missing[AT(i, j)] = 0;
			enter_if_first(i)
		:: else
		fi;
		kind = 0; time = 0; sent = 0
	}
}

active proctype system() {
end:
	do
	:: ask(0)
	:: ask(1)
	:: ask(2)
	:: leave(0)
	:: leave(1)
	:: leave(2)
	:: receive(0, 1)
	:: receive(0, 2)
	:: receive(1, 0)
	:: receive(1, 2)
	:: receive(2, 0)
	:: receive(2, 1)
	od
}
