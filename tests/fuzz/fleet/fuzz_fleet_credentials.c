// Any bytes as a fleet's file of credentials: it is refused, or what is taken from it are
// credentials, each of the device its record names, and putting new ones works.
#include "fuzz_target.h"

#include "ports/sim_credentials.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define DEVICES 4u

static void expect(bool holds)
{
    if (!holds) {
        abort();
    }
}

static void look(struct sim_credentials *credentials)
{
    for (uint32_t i = 0; i < DEVICES; i++) {
        uint64_t owner = sim_credentials_owner(credentials, i);
        struct base_str text = sim_credentials_get(credentials, i, owner);
        expect(text.size == 0 || (owner != 0 && wire_credential_ok(text)));
        expect(sim_credentials_get(credentials, i, owner + 1).size == 0);
        enum base_status status =
            sim_credentials_put(credentials, i, owner != 0 ? owner : 7, BASE_STR("wdt_fresh"));
        expect(status == BASE_OK);
        text = sim_credentials_get(credentials, i, owner != 0 ? owner : 7);
        expect(base_str_equal(text, BASE_STR("wdt_fresh")));
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char path[40];
    struct sim_credentials *credentials = NULL;
    int fd = memfd_create("credentials", MFD_CLOEXEC);
    expect(fd >= 0 && write(fd, data, size) == (ssize_t)size);
    (void)snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    if (sim_credentials_open(path, DEVICES, &credentials, NULL) == BASE_OK) {
        look(credentials);
    }
    sim_credentials_close(credentials);
    close(fd);
    return 0;
}
