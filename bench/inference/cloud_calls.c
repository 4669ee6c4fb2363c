// cloud_calls: calls of a model in the cloud as an app makes them, one after the other, over the
// device's one connection (device/include/device/cloud.h on the posix port); the result is JSON on
// standard output.
//
//   cloud_calls HOST PORT CA.pem FOLDER MODEL INPUT BYTES COUNT GAP_US KERNEL
//
// GAP_US is between an answer and the next call. KERNEL: `own`; `phone` does not know
// TCP_RTO_MIN_US (Linux 6.16); `cubic` neither, and has CUBIC instead of BBR (needs root).
// The body is one float32 tensor INPUT of shape [1, BYTES / 4], of noise, which does not compress.
#include "device/cloud.h"
#include "posix/posix_port.h"

#include "base/clock.h"
#include "base/prng.h"

#include <errno.h>
#include <event2/event.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#ifndef TCP_RTO_MIN_US
#define TCP_RTO_MIN_US 45 // Linux 6.16
#endif

#define COUNT_MAX   100000
#define DEADLINE_MS 30000
#define GAP_US_MAX  60000000
#define WARM        5 // calls that open the connection and plan the model
#define WARM_GAP_US 300000

// ---- Other kernels

static enum { KERNEL_OWN, KERNEL_PHONE, KERNEL_CUBIC } kernel; // before the first socket, once

int __real_setsockopt(int fd, int level, int option, const void *value, socklen_t size);
int __wrap_setsockopt(int fd, int level, int option, const void *value, socklen_t size);

// The device's sockets are refused what such a kernel refuses.
int __wrap_setsockopt(int fd, int level, int option, const void *value, socklen_t size)
{
    if (kernel != KERNEL_OWN && level == IPPROTO_TCP && option == TCP_RTO_MIN_US) {
        errno = ENOPROTOOPT;
        return -1;
    }
    if (kernel == KERNEL_CUBIC && level == IPPROTO_TCP && option == TCP_CONGESTION) {
        errno = ENOENT;
        return -1;
    }
    if (kernel == KERNEL_CUBIC && level == IPPROTO_TCP && option == TCP_NODELAY &&
        __real_setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, "cubic", 5) != 0) {
        perror("cloud_calls: cubic");
        exit(EXIT_FAILURE);
    }
    return __real_setsockopt(fd, level, option, value, size);
}

static bool kernel_named(const char *name)
{
    static const char *const names[] = {"own", "phone", "cubic"};
    for (unsigned int i = 0; i < 3; i++) {
        if (strcmp(name, names[i]) == 0) {
            kernel = i;
            return true;
        }
    }
    return false;
}

// ---- Calls

struct run {
    struct event_base *base;
    struct event *timer;
    struct posix_port *port;
    struct dev_cloud_call call;
    uint8_t body[WIRE_TENSOR_CALL_MAX];
    uint8_t answer[WIRE_TENSOR_ANSWER_MAX];
    struct timeval gap;
    uint32_t count;
    uint32_t done;
    uint32_t other; // not answered
    uint32_t again; // answered by a second request
    uint32_t took_us[COUNT_MAX];
};

static void next_call(struct run *run);

static void on_end(void *ctx, const struct dev_cloud_end *end)
{
    struct run *run = ctx;
    run->other += end->why != WIRE_CLOUD_ANSWERED;
    run->again += end->tries > 1;
    if (end->why != WIRE_CLOUD_ANSWERED && run->other < 4) {
        (void)fprintf(stderr, "cloud_calls: %s: %.*s\n", wire_cloud_word(end->why),
                      (int)end->detail.size, end->detail.data);
    }
    if (run->done >= WARM) {
        run->took_us[run->done - WARM] = end->took_us;
    }
    if (++run->done == run->count + WARM) {
        (void)event_base_loopbreak(run->base);
        return;
    }
    const struct timeval warm = {.tv_usec = WARM_GAP_US};
    (void)event_add(run->timer, run->done < WARM ? &warm : &run->gap);
}

static void next_call(struct run *run)
{
    enum wire_cloud_why why = dev_cloud_infer(posix_port_runtime(run->port), &run->call);
    if (why != WIRE_CLOUD_ANSWERED) { // the way is not known to be up yet
        const struct timeval gap = {.tv_usec = WARM_GAP_US};
        (void)event_add(run->timer, &gap);
    }
    posix_port_wake(run->port);
}

static void on_timer(evutil_socket_t fd, short what, void *ctx)
{
    (void)fd;
    (void)what;
    next_call(ctx);
}

static size_t body_make(struct run *run, const char *input, size_t bytes)
{
    static uint8_t noise[WIRE_TENSOR_CALL_MAX];
    struct wire_tensor_call call = {.priority = 1, .deadline_ms = DEADLINE_MS, .count = 1};
    struct base_prng prng;
    struct base_writer writer;
    base_prng_seed(&prng, 1);
    for (size_t i = 0; i + sizeof(float) <= bytes; i += sizeof(float)) {
        float value = (float)(base_prng_next(&prng) % 2000003) / 2000003.0f;
        memcpy(noise + i, &value, sizeof(value));
    }
    call.tensors[0] = (struct wire_tensor){.name = base_str_of(input),
                                           .dtype = 1,
                                           .rank = 2,
                                           .dims = {1, bytes / sizeof(float)},
                                           .data = noise,
                                           .bytes = bytes};
    base_writer_init(&writer, run->body, sizeof(run->body));
    wire_tensor_call_write(&writer, &call);
    return writer.status == BASE_OK ? base_writer_size(&writer) : 0;
}

static void report(const struct run *run)
{
    (void)printf("{\"other\": %u, \"again\": %u, \"took_us\": [", run->other, run->again);
    for (uint32_t i = 0; i < run->count; i++) {
        (void)printf("%s%u", i > 0 ? ", " : "", run->took_us[i]);
    }
    (void)printf("]}\n");
}

int main(int argc, char **argv)
{
    static struct run run;
    struct base_log log;
    struct base_error error = {.status = BASE_OK};
    uint64_t numbers[4] = {0}; // port, bytes, calls, pause
    bool good = argc == 11 && kernel_named(argv[10]) &&
                base_str_u64(base_str_of(argv[2]), &numbers[0]) == BASE_OK &&
                base_str_u64(base_str_of(argv[7]), &numbers[1]) == BASE_OK &&
                base_str_u64(base_str_of(argv[8]), &numbers[2]) == BASE_OK &&
                base_str_u64(base_str_of(argv[9]), &numbers[3]) == BASE_OK && numbers[2] > 0 &&
                numbers[2] <= COUNT_MAX && numbers[3] <= GAP_US_MAX;
    if (!good) {
        (void)fprintf(stderr, "usage: cloud_calls HOST PORT CA.pem FOLDER MODEL INPUT BYTES "
                              "COUNT GAP_US KERNEL\n");
        return EXIT_FAILURE;
    }
    base_log_stderr(&log, BASE_LOG_WARN);
    run.base = event_base_new();
    run.timer = evtimer_new(run.base, on_timer, &run);
    run.count = (uint32_t)numbers[2];
    run.gap = (struct timeval){.tv_sec = (time_t)(numbers[3] / 1000000),
                               .tv_usec = (suseconds_t)(numbers[3] % 1000000)};
    run.call = (struct dev_cloud_call){.model = base_str_of(argv[5]),
                                       .priority = 1,
                                       .deadline_ms = DEADLINE_MS,
                                       .body = run.body,
                                       .body_bytes = body_make(&run, argv[6], numbers[1]),
                                       .answer = run.answer,
                                       .answer_capacity = sizeof(run.answer),
                                       .ctx = &run,
                                       .on_end = on_end};
    const struct posix_options options = {
        .dir = argv[4],
        .host = base_str_of(argv[1]),
        .port = (uint16_t)numbers[0],
        .tls = true,
        .ca_pem_path = argv[3],
        .no_pipeline = true,
        .config = {.device_id = 0xc10d, .trusted_key_count = 1, .cloud_calls_max = 4},
        .log = &log};
    if (posix_port_new(run.base, &options, &run.port, &error) != BASE_OK) {
        (void)fprintf(stderr, "cloud_calls: %s\n", error.text);
        return EXIT_FAILURE;
    }
    next_call(&run);
    (void)event_base_dispatch(run.base);
    report(&run);
    posix_port_free(run.port);
    return EXIT_SUCCESS;
}
