// Standard output and error behind a guard. Called by main of every program, on its first thread;
// afterwards the C library calls the writer here under the lock of the stream.
//
// This is state of the process, like the streams themselves: one guard for each of the two.
#include "base/text/terminal.h"

#include "base/check.h"
#include "base/os/write_all.h"
#include "base/visible.h"

#include <errno.h>
#include <stdint.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

#define CHUNK_BYTES   4096u
#define PENDING_BYTES 4u

struct guard {
    FILE *file; // NULL: not in place
    int fd;
    bool own;                       // what comes now is the program's own
    uint8_t pending[PENDING_BYTES]; // the begun character that the last write ended in
    size_t pending_size;
};

static struct guard guards[] = {{.fd = STDOUT_FILENO}, {.fd = STDERR_FILENO}};

static bool write_out(int fd, const void *bytes, size_t size)
{
    return base_write_all(fd, bytes, size) == BASE_OK;
}

// Shows as much of `bytes` as is whole; the rest, less than a character, waits for the next call.
static bool show(struct guard *guard, const uint8_t *bytes, size_t size, size_t *out_taken)
{
    char chunk[CHUNK_BYTES];
    size_t filled = 0;
    size_t at = 0;
    while (at < size) {
        base_assert(filled <= CHUNK_BYTES - BASE_VISIBLE_MAX);
        size_t shown = 0;
        size_t taken =
            base_visible_step(bytes + at, size - at, BASE_VISIBLE_LINES, chunk + filled, &shown);
        if (taken == 0) {
            break;
        }
        at += taken;
        filled += shown;
        if (filled > CHUNK_BYTES - BASE_VISIBLE_MAX) {
            if (!write_out(guard->fd, chunk, filled)) {
                return false;
            }
            filled = 0;
        }
    }
    *out_taken = at;
    return write_out(guard->fd, chunk, filled);
}

// Completes the pending character with the first new bytes. Takes none when none is pending.
static bool show_pending(struct guard *guard, const uint8_t *bytes, size_t size, size_t *out_used)
{
    size_t used = 0;
    while (guard->pending_size > 0 && used < size) {
        guard->pending[guard->pending_size++] = bytes[used++];
        size_t taken = 0;
        if (!show(guard, guard->pending, guard->pending_size, &taken)) {
            return false;
        }
        guard->pending_size -= taken;
        memmove(guard->pending, guard->pending + taken, guard->pending_size);
    }
    *out_used = used;
    return true;
}

static ssize_t guard_write(void *cookie, const char *text, size_t size)
{
    struct guard *guard = cookie;
    const uint8_t *bytes = (const uint8_t *)text;
    size_t used = 0;
    size_t taken = 0;
    if (guard->own) {
        return write_out(guard->fd, text, size) ? (ssize_t)size : 0;
    }
    if (!show_pending(guard, bytes, size, &used) ||
        !show(guard, bytes + used, size - used, &taken)) {
        return 0;
    }
    size_t rest = size - used - taken; // less than a character
    if (rest > 0) {
        memcpy(guard->pending, bytes + used + taken, rest);
        guard->pending_size = rest;
    }
    return (ssize_t)size;
}

static FILE *put_up(struct guard *guard, int buffering)
{
    const cookie_io_functions_t functions = {.write = guard_write};
    guard->file = fopencookie(guard, "w", functions);
    if (guard->file != NULL) {
        (void)setvbuf(guard->file, NULL, buffering, BUFSIZ);
    }
    return guard->file;
}

void base_terminal_guard(void)
{
    FILE *output = put_up(&guards[0], isatty(STDOUT_FILENO) == 1 ? _IOLBF : _IOFBF);
    FILE *error = put_up(&guards[1], _IOLBF);
    // Without memory for two streams nothing is printed rather than printed unguarded.
    (void)fflush(stdout);
    if (output == NULL || error == NULL) {
        (void)fclose(stdout);
        (void)fclose(stderr);
        return;
    }
    stdout = output;
    stderr = error;
}

static struct guard *guard_of(const FILE *file)
{
    for (size_t i = 0; i < sizeof guards / sizeof guards[0]; i++) {
        if (file != NULL && guards[i].file == file) {
            return &guards[i];
        }
    }
    return NULL;
}

void base_terminal_control(FILE *file, const char *sequence)
{
    struct guard *guard = guard_of(file);
    if (guard == NULL) {
        (void)fputs(sequence, file);
        return;
    }
    flockfile(file);
    (void)fflush(file);
    guard->own = true;
    (void)fputs(sequence, file);
    (void)fflush(file);
    guard->own = false;
    funlockfile(file);
}

bool base_terminal_is(FILE *file)
{
    const struct guard *guard = guard_of(file);
    int fd = guard != NULL ? guard->fd : fileno(file);
    return fd >= 0 && isatty(fd) == 1;
}

void base_terminal_text(FILE *file, struct base_str text)
{
    const uint8_t *bytes = (const uint8_t *)text.data;
    char shown[BASE_VISIBLE_MAX];
    for (size_t at = 0; at < text.size;) {
        size_t size = 0;
        size_t taken =
            base_visible_step(bytes + at, text.size - at, BASE_VISIBLE_TEXT, shown, &size);
        if (taken == 0) { // it ends within a character: the guard shows the bytes
            (void)fwrite(bytes + at, 1, text.size - at, file);
            return;
        }
        (void)fwrite(shown, 1, size, file);
        at += taken;
    }
}
