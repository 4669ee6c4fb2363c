// link_emulator: two network namespaces joined by a link with delay and loss, where the kernel has
// no netem. Makes one tun device in each, and passes IP packets between them: each waits DELAY,
// some are dropped (seeded, so a run can be repeated). Everything above IP is the kernel's own TCP.
//
//   link_emulator NS_A NS_B --delay-us N --loss-ppm N --seed N
//
// The namespaces are those of `ip netns`; the devices are called `link0`, and the caller gives them
// addresses after the line "ready". Ends with SIGTERM and prints what it did as JSON. Root.
#include "base/clock.h"
#include "base/prng.h"
#include "base/str.h"

#include <argp.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/if.h>
#include <linux/if_tun.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <unistd.h>

#define PACKET_BYTES_MAX 2048
#define QUEUE_PACKETS    8192 // under way in one direction; more are dropped, as a full queue would
#define NS_PER_US        1000

struct packet {
    uint64_t due_us;
    size_t size;
    uint8_t bytes[PACKET_BYTES_MAX];
};

struct direction {
    int from;
    int to;
    struct packet *queue; // a ring, in order of due times
    uint32_t first;
    uint32_t count;
    uint64_t passed;
    uint64_t lost;
    uint64_t full;
};

struct arguments {
    const char *names[2];
    uint32_t name_count;
    uint64_t delay_us;
    uint64_t loss_ppm;
    uint64_t seed;
};

static volatile sig_atomic_t stopping;

static const struct argp_option options[] = {
    {"delay-us", 'd', "N", 0, "each way", 0},
    {"loss-ppm", 'l', "N", 0, "of packets, each way", 0},
    {"seed", 's', "N", 0, "of what is lost", 0},
    {0},
};

static error_t parse(int key, char *value, struct argp_state *state)
{
    struct arguments *arguments = state->input;
    uint64_t *number = key == 'd'   ? &arguments->delay_us
                       : key == 'l' ? &arguments->loss_ppm
                       : key == 's' ? &arguments->seed
                                    : NULL;
    if (number != NULL) {
        if (base_str_u64(base_str_of(value), number) != BASE_OK) {
            argp_error(state, "'%s' is not a number", value);
        }
        return 0;
    }
    if (key == ARGP_KEY_ARG && arguments->name_count < 2) {
        arguments->names[arguments->name_count++] = value;
        return 0;
    }
    if (key == ARGP_KEY_END && arguments->name_count != 2) {
        argp_error(state, "two namespaces are needed");
    }
    return ARGP_ERR_UNKNOWN;
}

static _Noreturn void fail(const char *what)
{
    fprintf(stderr, "link_emulator: %s: %s\n", what, strerror(errno));
    exit(EXIT_FAILURE);
}

static void on_signal(int number)
{
    (void)number;
    stopping = 1;
}

// A tun device in that namespace; the descriptor works from here.
static int open_tun(const char *name)
{
    char path[256];
    (void)snprintf(path, sizeof(path), "/var/run/netns/%s", name);
    int space = open(path, O_RDONLY | O_CLOEXEC);
    if (space < 0 || setns(space, CLONE_NEWNET) != 0) {
        fail(path);
    }
    close(space);
    int fd = open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC);
    struct ifreq request = {.ifr_flags = IFF_TUN | IFF_NO_PI};
    memcpy(request.ifr_name, "link0", 6);
    if (fd < 0 || ioctl(fd, TUNSETIFF, &request) != 0) {
        fail("/dev/net/tun");
    }
    return fd;
}

// Takes in what has come.
static void take(struct direction *way, const struct arguments *arguments, struct base_prng *prng,
                 uint64_t now_us)
{
    for (;;) {
        uint8_t dropped[PACKET_BYTES_MAX];
        bool full = way->count == QUEUE_PACKETS;
        struct packet *packet = &way->queue[(way->first + way->count) % QUEUE_PACKETS];
        ssize_t size = read(way->from, full ? dropped : packet->bytes, PACKET_BYTES_MAX);
        if (size <= 0) {
            return;
        }
        if (base_prng_next(prng) % 1000000 < arguments->loss_ppm) {
            way->lost++;
        } else if (full) {
            way->full++;
        } else {
            packet->size = (size_t)size;
            packet->due_us = now_us + arguments->delay_us;
            way->count++;
        }
    }
}

static void pass(struct direction *way, uint64_t now_us)
{
    while (way->count > 0 && way->queue[way->first].due_us <= now_us) {
        const struct packet *packet = &way->queue[way->first];
        ssize_t written = write(way->to, packet->bytes, packet->size);
        way->passed += written > 0 ? 1 : 0;
        way->first = (way->first + 1) % QUEUE_PACKETS;
        way->count--;
    }
}

static void run(struct direction ways[2], const struct arguments *arguments)
{
    struct base_prng prng;
    base_prng_seed(&prng, arguments->seed);
    while (!stopping) {
        uint64_t now_us = base_clock_mono_us();
        uint64_t due_us = UINT64_MAX;
        for (int i = 0; i < 2; i++) {
            take(&ways[i], arguments, &prng, now_us);
            pass(&ways[i], base_clock_mono_us());
            if (ways[i].count > 0 && ways[i].queue[ways[i].first].due_us < due_us) {
                due_us = ways[i].queue[ways[i].first].due_us;
            }
        }
        now_us = base_clock_mono_us();
        uint64_t wait_us = due_us <= now_us ? 0 : due_us - now_us;
        wait_us = wait_us < 100000 ? wait_us : 100000;
        struct timespec wait = {.tv_nsec = (long)(wait_us * NS_PER_US)};
        struct pollfd fds[2] = {{.fd = ways[0].from, .events = POLLIN},
                                {.fd = ways[1].from, .events = POLLIN}};
        (void)ppoll(fds, 2, &wait, NULL);
    }
}

int main(int argc, char **argv)
{
    static const struct argp argp = {options, parse, "NS_A NS_B", NULL, NULL, NULL, NULL};
    struct arguments arguments = {.seed = 1};
    if (argp_parse(&argp, argc, argv, 0, NULL, &arguments) != 0) {
        return EXIT_FAILURE;
    }
    int fds[2] = {open_tun(arguments.names[0]), open_tun(arguments.names[1])};
    struct direction ways[2] = {{.from = fds[0], .to = fds[1]}, {.from = fds[1], .to = fds[0]}};
    for (int i = 0; i < 2; i++) {
        ways[i].queue = malloc(QUEUE_PACKETS * sizeof(struct packet));
        if (ways[i].queue == NULL) {
            fail("memory");
        }
    }
    struct sigaction action = {.sa_handler = on_signal};
    (void)sigaction(SIGTERM, &action, NULL);
    (void)sigaction(SIGINT, &action, NULL);
    (void)prctl(PR_SET_TIMERSLACK, 1000);
    struct sched_param urgent = {.sched_priority = 1};
    (void)sched_setscheduler(0, SCHED_FIFO, &urgent); // a late packet would be our fault
    printf("ready\n");
    (void)fflush(stdout);
    run(ways, &arguments);
    printf(
        "{\"passed\":[%llu,%llu],\"lost\":[%llu,%llu],\"queue_full\":[%llu,%llu],\"seed\":%llu}\n",
        (unsigned long long)ways[0].passed, (unsigned long long)ways[1].passed,
        (unsigned long long)ways[0].lost, (unsigned long long)ways[1].lost,
        (unsigned long long)ways[0].full, (unsigned long long)ways[1].full,
        (unsigned long long)arguments.seed);
    free(ways[0].queue);
    free(ways[1].queue);
    return EXIT_SUCCESS;
}
