// The two records of a device on disk: which one is read, what a damaged, cut, stale or missing
// file leads to, what is set aside, and in which order a new record reaches the disk.
#include "test_kit.h"

#include "posix/store/posix_state.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define RECORD_BYTES 40u
#define FILE_BYTES   (POSIX_STATE_HEAD_BYTES + RECORD_BYTES + 8u)

static struct posix_state records;
static char root[64];
static int device = -1;

// ---- What reaches the disk, in order: d a file's bytes, r a rename, f a folder

static char calls[64];
static char fails; // this one does, with EIO

static bool note(char call)
{
    size_t size = strlen(calls);
    if (size + 1 < sizeof(calls)) {
        calls[size] = call;
        calls[size + 1] = '\0';
    }
    errno = EIO;
    return call != fails;
}

int fdatasync(int fd)
{
    return note('d') ? (int)syscall(SYS_fdatasync, fd) : -1;
}

int fsync(int fd)
{
    return note('f') ? (int)syscall(SYS_fsync, fd) : -1;
}

int renameat(int from_folder, const char *from, int to_folder, const char *to)
{
    return note('r') ? (int)syscall(SYS_renameat2, from_folder, from, to_folder, to, 0) : -1;
}

// ---- A device's folder

static int remove_one(const char *path, const struct stat *info, int kind, struct FTW *walk)
{
    (void)info;
    (void)kind;
    (void)walk;
    return remove(path);
}

static void open_records(void)
{
    assert_int_equal(posix_state_open(&records, device, root, NULL), BASE_OK);
}

// The process ends, and another begins.
static void open_again(void)
{
    posix_state_close(&records);
    memset(&records, 0, sizeof(records));
    open_records();
}

static int setup(void **state)
{
    (void)state;
    calls[0] = '\0';
    fails = 0;
    (void)snprintf(root, sizeof(root), "/tmp/walle-posix-state-XXXXXX");
    assert_non_null(mkdtemp(root));
    device = open(root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_true(device >= 0);
    memset(&records, 0, sizeof(records));
    open_records();
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    posix_state_close(&records);
    (void)close(device);
    return nftw(root, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

static void record_of(uint32_t number, uint8_t out[RECORD_BYTES])
{
    for (uint32_t i = 0; i < RECORD_BYTES; i++) {
        out[i] = (uint8_t)(number * 17 + i);
    }
}

static enum base_status save(uint32_t number)
{
    uint8_t bytes[RECORD_BYTES];
    record_of(number, bytes);
    return posix_state_save(&records, bytes, sizeof(bytes));
}

static void save_up_to(uint32_t last)
{
    for (uint32_t number = 1; number <= last; number++) {
        assert_int_equal(save(number), BASE_OK);
    }
}

// Record `number` is read; 0: none is, with this status.
static void expect(bool before, uint32_t number, enum base_status status)
{
    uint8_t expected[RECORD_BYTES];
    uint8_t bytes[RECORD_BYTES + 8];
    size_t size = 0;
    enum base_status got = posix_state_load(&records, before, bytes, sizeof(bytes), &size);
    assert_int_equal(got, status);
    if (number > 0) {
        record_of(number, expected);
        assert_int_equal(size, RECORD_BYTES);
        assert_memory_equal(bytes, expected, RECORD_BYTES);
    }
}

static size_t read_file(const char *name, uint8_t out[2 * FILE_BYTES])
{
    int fd = openat(device, name, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return 0;
    }
    ssize_t size = read(fd, out, 2 * FILE_BYTES);
    (void)close(fd);
    return size > 0 ? (size_t)size : 0;
}

static void write_file(const char *name, const uint8_t *bytes, size_t size)
{
    int fd = openat(device, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, bytes, size), (ssize_t)size);
    (void)close(fd);
}

static bool is_there(const char *name)
{
    struct stat info;
    return fstatat(device, name, &info, 0) == 0;
}

// ---- Sound files

static void two_generations_in_turn(void **state)
{
    uint8_t bytes[2 * FILE_BYTES];
    (void)state;
    expect(false, 0, BASE_ERR_NOT_FOUND);
    expect(true, 0, BASE_ERR_NOT_FOUND);
    assert_int_equal(save(1), BASE_OK);
    assert_true(is_there("state/odd") && !is_there("state/even"));
    open_again();
    expect(false, 1, BASE_OK);
    expect(true, 0, BASE_ERR_NOT_FOUND);
    for (uint32_t number = 2; number <= 5; number++) {
        assert_int_equal(save(number), BASE_OK);
        expect(false, number, BASE_OK);
        expect(true, number - 1, BASE_OK);
        open_again();
        expect(false, number, BASE_OK);
        expect(true, number - 1, BASE_OK);
        assert_int_equal(read_file("state/even", bytes), FILE_BYTES);
        assert_int_equal(read_file("state/odd", bytes), number == 1 ? 0 : FILE_BYTES);
    }
    assert_false(is_there("state/new") || is_there("state.damaged"));
}

// The newest is the one of the higher number, not of the later file.
static void a_stale_file_is_older(void **state)
{
    uint8_t stale[2 * FILE_BYTES];
    (void)state;
    save_up_to(2);
    assert_int_equal(read_file("state/even", stale), FILE_BYTES);
    assert_int_equal(save(3), BASE_OK);
    assert_int_equal(save(4), BASE_OK);
    write_file("state/even", stale, FILE_BYTES);
    open_again();
    expect(false, 3, BASE_OK);
    assert_int_equal(save(9), BASE_OK);
    open_again();
    expect(false, 9, BASE_OK);
    expect(true, 3, BASE_OK);
}

// ---- Damage

// `name` is damaged, the record `other` whole; `doubt`: the damaged one may have been newer.
static void expect_damage(const char *name, const uint8_t *bytes, size_t size, uint32_t other,
                          bool doubt)
{
    uint8_t aside[2 * FILE_BYTES];
    write_file(name, bytes, size);
    (void)unlinkat(device, "state.damaged", 0);
    open_again();
    if (doubt) {
        expect(false, 0, BASE_ERR_CORRUPT);
        expect(true, other, BASE_OK);
    } else {
        expect(false, other, BASE_OK);
        expect(true, other, BASE_OK); // written again in its place
    }
    assert_int_equal(read_file("state.damaged", aside), size);
    assert_memory_equal(aside, bytes, size);
}

static void restore(uint8_t even[2 * FILE_BYTES], uint8_t odd[2 * FILE_BYTES])
{
    write_file("state/even", even, FILE_BYTES);
    write_file("state/odd", odd, FILE_BYTES);
}

static void every_changed_bit_of_either(void **state)
{
    uint8_t even[2 * FILE_BYTES];
    uint8_t odd[2 * FILE_BYTES];
    (void)state;
    save_up_to(4);
    assert_int_equal(read_file("state/even", even), FILE_BYTES);
    assert_int_equal(read_file("state/odd", odd), FILE_BYTES);
    for (size_t bit = 0; bit < 8 * FILE_BYTES; bit++) {
        uint8_t mask = (uint8_t)(1u << bit % 8);
        even[bit / 8] ^= mask; // the newest
        expect_damage("state/even", even, FILE_BYTES, 3, true);
        even[bit / 8] ^= mask;
        restore(even, odd);
        odd[bit / 8] ^= mask; // the older; without its head nobody knows that it is
        expect_damage("state/odd", odd, FILE_BYTES, 4, bit / 8 < POSIX_STATE_HEAD_BYTES);
        odd[bit / 8] ^= mask;
        restore(even, odd);
    }
    open_again();
    expect(false, 4, BASE_OK);
    expect(true, 3, BASE_OK);
}

static void cut_and_longer(void **state)
{
    uint8_t even[2 * FILE_BYTES];
    uint8_t odd[2 * FILE_BYTES];
    (void)state;
    save_up_to(4);
    assert_int_equal(read_file("state/even", even), FILE_BYTES);
    assert_int_equal(read_file("state/odd", odd), FILE_BYTES);
    even[FILE_BYTES] = 0;
    for (size_t size = 0; size <= FILE_BYTES + 1; size++) {
        if (size != FILE_BYTES) {
            expect_damage("state/even", even, size, 3, true);
            restore(even, odd);
        }
    }
}

// The other's file under its name is as good as damaged, whole as it is.
static void a_file_under_the_others_name(void **state)
{
    uint8_t odd[2 * FILE_BYTES];
    (void)state;
    save_up_to(3);
    assert_int_equal(read_file("state/odd", odd), FILE_BYTES);
    expect_damage("state/even", odd, FILE_BYTES, 3, true);
}

static void both_damaged(void **state)
{
    uint8_t bytes[2 * FILE_BYTES];
    (void)state;
    save_up_to(4);
    assert_int_equal(read_file("state/even", bytes), FILE_BYTES);
    bytes[FILE_BYTES - 1] ^= 1;
    write_file("state/even", bytes, FILE_BYTES);
    write_file("state/odd", bytes, 5);
    open_again();
    expect(false, 0, BASE_ERR_CORRUPT);
    expect(true, 0, BASE_ERR_NOT_FOUND);
    assert_false(is_there("state/even") || is_there("state/odd"));
    assert_true(is_there("state.damaged"));
    assert_int_equal(save(7), BASE_OK);
    expect(false, 7, BASE_OK);
    open_again();
    expect(false, 7, BASE_OK);
}

// Once the device has gone on, nothing is in doubt any more.
static void going_on_after_damage(void **state)
{
    uint8_t bytes[2 * FILE_BYTES];
    (void)state;
    save_up_to(4);
    assert_int_equal(read_file("state/even", bytes), FILE_BYTES);
    bytes[30] ^= 1;
    write_file("state/even", bytes, FILE_BYTES);
    open_again();
    expect(false, 0, BASE_ERR_CORRUPT);
    assert_int_equal(save(8), BASE_OK);
    expect(false, 8, BASE_OK);
    expect(true, 3, BASE_OK);
    open_again();
    expect(false, 8, BASE_OK);
    expect(true, 3, BASE_OK);
}

// ---- The way to the disk

static void bytes_then_name_then_folder(void **state)
{
    (void)state;
    assert_int_equal(save(1), BASE_OK);
    assert_string_equal(calls, "drf");
    assert_int_equal(save(2), BASE_OK);
    assert_string_equal(calls, "drfdrf");
}

// What is not on disk for certain is not saved, and what was there before stays what is read.
static void a_step_that_fails(void **state)
{
    static const char steps[] = "drf";
    (void)state;
    save_up_to(2);
    for (size_t i = 0; i < sizeof(steps) - 1; i++) {
        calls[0] = '\0';
        fails = steps[i];
        assert_int_equal(save(9), BASE_ERR_IO);
        assert_int_equal(strlen(calls), i + 1);
        fails = 0;
        expect(false, 2, BASE_OK);
        assert_false(is_there("state/new"));
    }
    assert_int_equal(save(3), BASE_OK);
    expect(false, 3, BASE_OK);
    open_again();
    expect(false, 3, BASE_OK);
    expect(true, 2, BASE_OK);
}

// A kill before the rename leaves a file that is nobody's.
static void a_file_of_a_kill(void **state)
{
    (void)state;
    save_up_to(2);
    write_file("state/new", (const uint8_t *)"half", 4);
    open_again();
    expect(false, 2, BASE_OK);
    expect(true, 1, BASE_OK);
    assert_int_equal(save(3), BASE_OK);
    expect(false, 3, BASE_OK);
    assert_false(is_there("state/new"));
}

static void full_folder(const char *name)
{
    assert_int_equal(mkdirat(records.folder, name, 0700), 0);
    int inner = openat(records.folder, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_true(inner >= 0);
    assert_int_equal(mkdirat(inner, "of_somebody", 0700), 0);
    (void)close(inner);
}

// Folders with something in them, in the place of both records and of the next: they stay, beside.
static void folders_in_place_of_all(void **state)
{
    (void)state;
    static const char *const kept[] = {"state.damaged/of_somebody", "state/odd.aside/of_somebody",
                                       "state/new.aside/of_somebody"};
    full_folder("even");
    full_folder("odd");
    full_folder("new");
    open_again();
    assert_int_equal(save(1), BASE_OK);
    assert_int_equal(save(2), BASE_OK);
    open_again();
    expect(false, 2, BASE_OK);
    for (size_t i = 0; i < sizeof(kept) / sizeof(kept[0]); i++) {
        assert_true(is_there(kept[i]));
    }
}

static void sizes(void **state)
{
    static uint8_t large[DEV_STATE_BYTES_MAX + 1];
    static uint8_t out[DEV_STATE_BYTES_MAX + 1];
    size_t size = 0;
    (void)state;
    assert_int_equal(posix_state_save(&records, large, sizeof(large)), BASE_ERR_TOO_LARGE);
    expect(false, 0, BASE_ERR_NOT_FOUND);
    assert_int_equal(posix_state_save(&records, large, DEV_STATE_BYTES_MAX), BASE_OK);
    open_again();
    assert_int_equal(posix_state_load(&records, false, out, DEV_STATE_BYTES_MAX - 1, &size),
                     BASE_ERR_TOO_LARGE);
    assert_int_equal(posix_state_load(&records, false, out, sizeof(out), &size), BASE_OK);
    assert_int_equal(size, DEV_STATE_BYTES_MAX);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(two_generations_in_turn),
        CASE(a_stale_file_is_older),
        CASE(every_changed_bit_of_either),
        CASE(cut_and_longer),
        CASE(a_file_under_the_others_name),
        CASE(both_damaged),
        CASE(going_on_after_damage),
        CASE(bytes_then_name_then_folder),
        CASE(a_step_that_fails),
        CASE(a_file_of_a_kill),
        CASE(folders_in_place_of_all),
        CASE(sizes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
