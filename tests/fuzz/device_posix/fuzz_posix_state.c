// Any bytes as the two files of a device's record, each with its seals put right when a flag asks
// for it, so that what lies behind them is reached. Opening never ends the process; what a load
// gives was sealed; a save is what the next start loads, and the one before it is there as well.
//
//   input := u8 flags (1, 2: the even, the odd file is there; 4, 8: its seals are put right),
//            u16 size of the even file, its bytes, the odd file's bytes
#include "fuzz_target.h"

#include "posix/store/posix_state.h"

#include "base/check.h"
#include "base/cursor.h"
#include "base/record_seal.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define EVEN_THERE  1u
#define ODD_THERE   2u
#define EVEN_SEALED 4u
#define ODD_SEALED  8u
#define HEAD_SEALED (POSIX_STATE_HEAD_BYTES - BASE_SEAL_BYTES)

static char dir[] = "/tmp/walle-fuzz-state-XXXXXX";
static int device = -1;

static void folder_remove(void)
{
    static const char *const names[] = {"state/even", "state/odd", "state/new", "state.damaged"};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        (void)unlinkat(device, names[i], 0);
    }
    (void)unlinkat(device, "state", AT_REMOVEDIR);
    (void)rmdir(dir);
}

static void folder_make(void)
{
    if (device < 0) {
        base_check(mkdtemp(dir) != NULL);
        device = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        base_check(device >= 0 && mkdirat(device, "state", 0700) == 0);
        base_check(atexit(folder_remove) == 0);
    }
}

// The file with the seals that its size and generation want. What is sealed, a device wrote: no
// device comes near the last generation.
static void seal(uint8_t *bytes, size_t size)
{
    if (size < POSIX_STATE_HEAD_BYTES + BASE_SEAL_BYTES) {
        return;
    }
    size_t inside = size - POSIX_STATE_HEAD_BYTES - BASE_SEAL_BYTES;
    const uint32_t said = (uint32_t)inside;
    memcpy(bytes, "WLS1", 4);
    memcpy(bytes + 4, &said, sizeof(said));
    bytes[15] = 0;
    base_record_seal("state head", (struct base_span){NULL, 0},
                     (struct base_span){bytes, HEAD_SEALED}, bytes + HEAD_SEALED);
    base_record_seal("state", (struct base_span){bytes + 8, sizeof(uint64_t)},
                     (struct base_span){bytes + POSIX_STATE_HEAD_BYTES, inside},
                     bytes + size - BASE_SEAL_BYTES);
}

static void put(const char *name, bool there, bool sealed, const uint8_t *bytes, size_t size)
{
    static uint8_t file[POSIX_STATE_FILE_MAX + 16];
    (void)unlinkat(device, name, 0);
    if (!there) {
        return;
    }
    size = size < sizeof(file) ? size : sizeof(file);
    memcpy(file, bytes, size);
    if (sealed) {
        seal(file, size);
    }
    int fd = openat(device, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    base_check(fd >= 0 && write(fd, file, size) == (ssize_t)size && close(fd) == 0);
}

static void need(struct posix_state *state, bool before, const char *text)
{
    static uint8_t out[DEV_STATE_BYTES_MAX];
    size_t size = 0;
    base_check(posix_state_load(state, before, out, sizeof(out), &size) == BASE_OK);
    base_check(size == strlen(text) && memcmp(out, text, size) == 0);
}

static void start(void)
{
    static struct posix_state state;
    static uint8_t out[DEV_STATE_BYTES_MAX];
    size_t size = 0;
    memset(&state, 0, sizeof(state));
    base_check(posix_state_open(&state, device, dir, NULL) == BASE_OK);
    base_check(posix_state_load(&state, false, out, sizeof(out), &size) != BASE_ERR_TOO_LARGE);
    base_check(posix_state_load(&state, true, out, sizeof(out), &size) != BASE_ERR_TOO_LARGE);
    base_check(posix_state_save(&state, (const uint8_t *)"first", 5) == BASE_OK);
    base_check(posix_state_save(&state, (const uint8_t *)"second", 6) == BASE_OK);
    posix_state_close(&state);
    memset(&state, 0, sizeof(state));
    base_check(posix_state_open(&state, device, dir, NULL) == BASE_OK);
    need(&state, false, "second");
    need(&state, true, "first");
    posix_state_close(&state);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 3) {
        return 0;
    }
    folder_make();
    unsigned flags = data[0];
    size_t even = (size_t)data[1] | (size_t)data[2] << 8;
    even = even < size - 3 ? even : size - 3;
    put("state/even", flags & EVEN_THERE, flags & EVEN_SEALED, data + 3, even);
    put("state/odd", flags & ODD_THERE, flags & ODD_SEALED, data + 3 + even, size - 3 - even);
    start();
    return 0;
}
