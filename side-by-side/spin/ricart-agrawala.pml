/* Ricart-Agrawala 1981 with three processes, as crates/algorithms/src/mutexes/ricart_agrawala.rs has
 * it, over links that may reorder: a link is a set, kept sorted, of which any message may come next.
 * Of each kind at most one is under way between two processes, so the kind tells which.
 */
#ifndef ENTRIES
#define ENTRIES 1
#endif
#define N 3
#define AT(i, j) ((i) * N + (j))

mtype = { request, reply };

#define OUTSIDE 0
#define REQUESTING 1
#define INSIDE 2

byte clock[N];
byte phase[N];
byte entered[N];
/* The time of one's request, while one waits. */
byte ours[N];
bit missing[9];
bit deferred[9];
/* From i to j: kind, time of the request, sender's clock. */
chan link[9] = [4] of { mtype, byte, byte };

hidden byte time;
hidden byte sent;
hidden byte other;

#define NOBODY_INSIDE (phase[0] != INSIDE && phase[1] != INSIDE && phase[2] != INSIDE)
#define AGREED(i) (!missing[AT(i, 0)] && !missing[AT(i, 1)] && !missing[AT(i, 2)])

inline ask(i) {
	d_step {
		phase[i] == OUTSIDE && entered[i] < ENTRIES ->
		entered[i]++;
		clock[i]++;
		phase[i] = REQUESTING;
		ours[i] = clock[i];
		other = 0;
		do
		:: other == N -> break
		:: other < N && other == i -> other++
		:: other < N && other != i ->
			missing[AT(i, other)] = 1;
			link[AT(i, other)]!!request(clock[i], clock[i]);
			other++
		od;
		other = 0
	}
}

inline leave(i) {
	d_step {
		phase[i] == INSIDE ->
		phase[i] = OUTSIDE;
		other = 0;
		do
		:: other == N -> break
		:: other < N && !deferred[AT(i, other)] -> other++
		:: other < N && deferred[AT(i, other)] ->
			deferred[AT(i, other)] = 0;
			link[AT(i, other)]!!reply(0, clock[i]);
			other++
		od;
		other = 0
	}
}

inline rise(i) {
	if
	:: clock[i] < sent + 1 -> clock[i] = sent + 1
	:: else
	fi
}

inline receive_request(i, j) {
	d_step {
		link[AT(j, i)]??request(time, sent) ->
		rise(i);
		if
		:: phase[i] == INSIDE ||
		   (phase[i] == REQUESTING && (ours[i] < time || (ours[i] == time && i < j))) ->
			deferred[AT(i, j)] = 1
		:: else ->
			link[AT(i, j)]!!reply(0, clock[i])
		fi;
		time = 0; sent = 0
	}
}

inline receive_reply(i, j) {
	d_step {
		link[AT(j, i)]??reply(time, sent) ->
		rise(i);
		missing[AT(i, j)] = 0;
		if
		:: AGREED(i) ->
			assert(NOBODY_INSIDE);
			phase[i] = INSIDE;
			ours[i] = 0
		:: else
		fi;
		time = 0; sent = 0
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
	:: receive_request(0, 1)
	:: receive_request(0, 2)
	:: receive_request(1, 0)
	:: receive_request(1, 2)
	:: receive_request(2, 0)
	:: receive_request(2, 1)
	:: receive_reply(0, 1)
	:: receive_reply(0, 2)
	:: receive_reply(1, 0)
	:: receive_reply(1, 2)
	:: receive_reply(2, 0)
	:: receive_reply(2, 1)
	od
}
