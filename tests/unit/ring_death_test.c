/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The ring: readers and writers that die between any two steps, and who may take over. The one who
 * is to die is a child, which ends at the n-th time it passes a test point.
 */

#include "ring_fixture.h"

#include <errno.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

static struct ring ring;
static struct ring_writer writer;
static struct notebook *book;

static const char *death_point;
static int death_count;

static void die_there(const char *point)
{
	if (!strcmp(point, death_point) && !--death_count)
		_exit(99);
}

/* Run `body` in a child that dies at the n-th pass of `point`. Returns whether it came that far. */
static int child_dies(const char *point, int n, void (*body)(void))
{
	pid_t pid = fork();
	int status;

	assert_true(pid >= 0);
	if (!pid) {
		death_point = point;
		death_count = n;
		ring_test_hook = die_there;
		body();
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	assert_true(WEXITSTATUS(status) == 0 || WEXITSTATUS(status) == 99);
	return WEXITSTATUS(status) == 99;
}

static void scene_new(enum ring_mode mode, uint32_t subbufs)
{
	struct ring_config config = small_config(mode, subbufs);

	session_new(&ring, &config);
	book = notebook_new();
}

static void scene_free(void)
{
	notebook_free(book);
	session_free(&ring);
}

/*
 * Every number from 0 to count - 1 arrived, in order. Records may come again only as a fragment that
 * has the same thread, sequence and from as the one before: that is how it is known.
 */
static void arrived_once(uint64_t count, int may_come_again)
{
	uint64_t next = 0;
	uint32_t at = 0, again = 0;

	for (uint32_t i = 0; i < book->count; i++) {
		const struct note *note = &book->notes[i];
		uint32_t records = (note->bytes - (note->from ? 0 : HEADER)) / RECORD_BYTES;

		if (i && note->sequence == note[-1].sequence && note->from == note[-1].from) {
			again++;
			next -= (note[-1].bytes - (note->from ? 0 : HEADER)) / RECORD_BYTES;
		}
		for (uint32_t n = 0; n < records; n++)
			assert_int_equal(book->number[at++], next++);
	}
	assert_int_equal(next, count);
	assert_true(again <= (uint32_t)may_come_again);
}

/* ---- Readers ----------------------------------------------------------------------------- */

static void drain_all(void)
{
	struct ring_reader *reader = ring_reader_new(&ring, (uint32_t)getpid(), 1);

	if (!reader)
		_exit(1);
	while (ring_drain(reader, UINT64_MAX, note_fragment, book) > 0)
		;
	ring_reader_free(reader);
}

static void reader_dies_anywhere(void **state)
{
	static const char *const points[] = {"scanned",	 "reading", "copied",	      "passed",
					     "consumed", "free",    "freed",	      "push",
					     "pushed",	 "walked",  "states_repaired"};
	int deaths = 0;

	(void)state;
	for (size_t i = 0; i < sizeof(points) / sizeof(points[0]); i++) {
		for (int n = 1; n <= 4; n++) {
			int again = 0;

			scene_new(RING_DISCARD, 4);
			writer_new(&writer, &ring, 1);
			/* Half of one read already, then two full ones and a part. */
			records_write(&writer, 0, RECORDS_FIT / 2);
			drain_all();
			records_write(&writer, RECORDS_FIT / 2, 2 * RECORDS_FIT);
			if (child_dies(points[i], n, drain_all)) {
				deaths++;
				again = !strcmp(points[i], "passed");
			}
			/* The writer goes on before anybody comes. */
			records_write(&writer, RECORDS_FIT / 2 + 2 * RECORDS_FIT, 10);
			/* A second one dies of the same. */
			again += child_dies(points[i], 1, drain_all) &&
				 !strcmp(points[i], "passed");
			drain_all();
			arrived_once(RECORDS_FIT / 2 + 2 * RECORDS_FIT + 10, again);
			assert_int_equal(ring.threads[0].discarded[RING_IN], 0);
			/* All but the one that is being written. */
			assert_int_equal(subbufs_takeable(&ring, 2), 3);
			scene_free();
		}
	}
	/* Each point was reached by the first at least. */
	assert_true(deaths >= 2 * (int)(sizeof(points) / sizeof(points[0])));
}

/* The stack is taken away and built anew when it makes no sense; a death in there is mended too. */
static void reader_dies_while_it_repairs(void **state)
{
	static const char *const points[] = {"walked", "push"};

	(void)state;
	for (size_t i = 0; i < 2; i++) {
		for (int n = 1; n <= 4; n++) {
			scene_new(RING_DISCARD, 4);
			/* A ring of two. */
			atomic_store(&ring.meta[1].next, 1);
			assert_true(child_dies(points[i], i ? n : 1, drain_all));
			drain_all();
			assert_int_equal(subbufs_takeable(&ring, 2), 4);
			scene_free();
		}
	}
}

/* ---- Writers ----------------------------------------------------------------------------- */

static void write_much(void)
{
	if (ring_writer_claim(&writer, &ring, 1, RING_ROLE_NORMAL, 1, 0))
		_exit(1);
	for (uint64_t n = 0; n < 3 * RECORDS_FIT; n++)
		if (!record_write(&writer, n))
			_exit(1);
}

static void writer_dies_anywhere(void **state)
{
	static const struct {
		const char *point;
		int n;
		uint64_t arrive; /* records that were committed */
		uint32_t held; /* sub-buffers that the dead one still holds */
	} deaths[] = {
		{"take", 1, 0, 0},
		{"taken", 1, 0, 0},
		{"claimed", 1, 0, 1},
		{"commit", 1, 0, 1},
		{"commit", 100, 99, 1},
		{"commit", RECORDS_FIT, RECORDS_FIT - 1, 1},
		{"closed", 1, RECORDS_FIT, 0},
		{"take", 2, RECORDS_FIT, 0},
		{"taken", 2, RECORDS_FIT, 0},
		{"claimed", 2, RECORDS_FIT, 1},
		{"commit", RECORDS_FIT + 1, RECORDS_FIT, 1},
		{"claimed", 3, 2 * RECORDS_FIT, 1},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(deaths) / sizeof(deaths[0]); i++) {
		scene_new(RING_DISCARD, 4);
		assert_true(child_dies(deaths[i].point, deaths[i].n, write_much));
		drain_all();
		arrived_once(deaths[i].arrive, 0);
		assert_int_equal(subbufs_takeable(&ring, 2), 4 - deaths[i].held);
		scene_free();
	}
}

static void overwriter_dies_anywhere(void **state)
{
	static const struct {
		const char *point;
		int n;
		uint64_t first, count;
	} deaths[] = {
		/* of two: both full, then one of them taken and not begun, then begun again */
		{"overwrite", 1, 0, 2 * RECORDS_FIT},
		{"claimed", 3, RECORDS_FIT, RECORDS_FIT},
		{"commit", 2 * RECORDS_FIT + 1, RECORDS_FIT, RECORDS_FIT},
		{"commit", 3 * RECORDS_FIT, RECORDS_FIT, 2 * RECORDS_FIT - 1},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(deaths) / sizeof(deaths[0]); i++) {
		scene_new(RING_OVERWRITE, 2);
		assert_true(child_dies(deaths[i].point, deaths[i].n, write_much));
		drain_all();
		assert_int_equal(book->numbers, deaths[i].count);
		for (uint32_t n = 0; n < book->numbers; n++)
			assert_int_equal(book->number[n], deaths[i].first + n);
		scene_free();
	}
}

static void dict_write(void)
{
	for (uint64_t key = 1; key < 4; key++)
		ring_dict_put(&ring, RING_DICT_ATOM, key, "text", 4);
}

static void dict_writer_dies_anywhere(void **state)
{
	static const char *const points[] = {"dict_reserved", "dict_written"};

	(void)state;
	for (size_t i = 0; i < 2; i++) {
		const struct ring_dict_entry *entry;
		struct ring_reader *reader;
		uint64_t keys[8], offset, position;
		const void *data;
		int64_t bytes;
		int count = 0;

		scene_new(RING_DISCARD, 2);
		assert_true(child_dies(points[i], 2, dict_write));
		ring_dict_put(&ring, RING_DICT_ATOM, 9, "text", 4);
		reader = ring_reader_new(&ring, 1, 1);
		for (int drains = 0; drains < 10; drains++) {
			bytes = ring_dict_drain(reader, &data, &offset);
			position = 0;
			while (ring_dict_next(data, (uint64_t)bytes, &position, &entry))
				keys[count++] = entry->key;
		}
		assert_int_equal(count, 2);
		assert_int_equal(keys[0], 1);
		assert_int_equal(keys[1], 9);
		ring_reader_free(reader);
		scene_free();
	}
}

/* ---- Taking over ------------------------------------------------------------------------- */

static void live_reader_is_left_alone(void **state)
{
	struct ring_reader *reader;
	pid_t child;

	(void)state;
	scene_new(RING_DISCARD, 2);
	child = fork();
	assert_true(child >= 0);
	if (!child) {
		pause();
		_exit(0);
	}
	atomic_store(&ring.control->reader_pid, (uint32_t)child);
	atomic_store(&ring.control->lease_until_ns, 1000);
	assert_null(ring_reader_new(&ring, 1, 999));
	assert_int_equal(errno, EBUSY);
	assert_int_equal(ring.control->reader_epoch, 0);
	/* Its lease is over: stopped, or the pid is somebody else's. */
	reader = ring_reader_new(&ring, 1, 1000);
	assert_non_null(reader);
	assert_int_equal(ring.control->reader_pid, 1);
	ring_reader_free(reader);
	assert_int_equal(ring.control->reader_pid, 0);
	/* Dead, though nobody has waited for it. */
	atomic_store(&ring.control->reader_pid, (uint32_t)child);
	kill(child, SIGKILL);
	waitid(P_PID, (id_t)child, &(siginfo_t){0}, WEXITED | WNOWAIT);
	reader = ring_reader_new(&ring, 1, 1);
	assert_non_null(reader);
	ring_reader_free(reader);
	waitpid(child, NULL, 0);
	/* Dead and gone. */
	atomic_store(&ring.control->reader_pid, (uint32_t)child);
	reader = ring_reader_new(&ring, 1, 1);
	assert_non_null(reader);
	ring_reader_free(reader);
	scene_free();
}

/* The old reader sees its successor, drains once more and leaves; the successor waits for that. */
static void old_reader(void)
{
	struct ring_reader *reader = ring_reader_new(&ring, (uint32_t)getpid(), 1);

	if (!reader)
		_exit(1);
	while (!atomic_load(&ring.control->next_reader_pid))
		usleep(100);
	while (ring_drain(reader, UINT64_MAX, note_fragment, book) > 0)
		;
	ring_reader_free(reader);
}

static void planned_successor_waits(void **state)
{
	struct ring_reader *reader;
	pid_t child;
	int status;

	(void)state;
	scene_new(RING_DISCARD, 4);
	writer_new(&writer, &ring, 1);
	records_write(&writer, 0, RECORDS_FIT + 10);
	child = fork();
	assert_true(child >= 0);
	if (!child) {
		old_reader();
		_exit(0);
	}
	while (!atomic_load(&ring.control->reader_pid))
		usleep(100);
	/* Not without a word. */
	assert_null(ring_reader_new(&ring, (uint32_t)getpid(), 1));
	assert_int_equal(errno, EBUSY);
	atomic_store(&ring.control->next_reader_pid, (uint32_t)getpid());
	reader = ring_reader_new(&ring, (uint32_t)getpid(), 1);
	assert_non_null(reader);
	assert_int_equal(ring.control->next_reader_pid, 0);
	/* The old one took it all. */
	arrived_once(RECORDS_FIT + 10, 0);
	records_write(&writer, RECORDS_FIT + 10, 1);
	assert_int_equal(ring_drain(reader, UINT64_MAX, note_fragment, book), 24);
	ring_reader_free(reader);
	waitpid(child, &status, 0);
	assert_true(WIFEXITED(status) && !WEXITSTATUS(status));
	scene_free();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(reader_dies_anywhere),
		cmocka_unit_test(reader_dies_while_it_repairs),
		cmocka_unit_test(writer_dies_anywhere),
		cmocka_unit_test(overwriter_dies_anywhere),
		cmocka_unit_test(dict_writer_dies_anywhere),
		cmocka_unit_test(live_reader_is_left_alone),
		cmocka_unit_test(planned_successor_waits),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
