// walle-infer-load: calls a model over HTTP/1.1 with one prepared body, for servers of the Open
// Inference Protocol. With --rate calls begin at random times (Poisson), whether or not replies
// come, and latency counts from the time meant; without, every connection calls again when its
// reply is complete. One thread, which spins while the next call is near, or the only reply is
// awaited. Prints one JSON line.
#include "base/clock.h"
#include "base/hist.h"
#include "base/os/process_start.h"
#include "base/prng.h"
#include "infer_caller.h"

#include <argp.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

#define US_PER_S        1000000u
#define CONNECTIONS_MAX 4096u
#define EVENTS_MAX      256
#define HEADERS_BYTES   4096
#define BUFFER_BYTES    (256 * 1024)
#define SPIN_US         1500u // nearer than this, waiting in the kernel would be late
#define GRACE_US        (5u * US_PER_S)

struct load_options {
    const char *url;
    const char *body_path;
    char headers[HEADERS_BYTES]; // lines, each with its end
    size_t headers_bytes;
    uint64_t connections;
    uint64_t rate; // calls a second; 0: closed loop
    uint64_t seconds;
    uint64_t warm_up_s;
    uint64_t seed;
};

struct load_run {
    struct load_options options;
    struct infer_server server;
    struct infer_caller *callers;
    struct infer_caller **idle; // as a stack
    uint32_t idle_count;
    int epoll_fd;
    uint8_t *buffer;
    struct base_prng prng;
    struct base_hist latency_us; // of answers with 200
    double next_due_us;
    uint64_t count_from_us, ends_us;
    uint64_t good, answered, shed, other, lost, open;
};

const char *argp_program_version = "walle-infer-load 0.1.0";

static const struct argp_option options[] = {
    {"body", 'b', "FILE", 0, "the body of every call", 0},
    {"header", 'H', "LINE", 0, "a header of every call, `name: value`; may be given again", 0},
    {"connections", 'c', "N", 0, "connections, so calls at once (default 1)", 0},
    {"rate", 'r', "N", 0, "calls a second in all, at random times; default: closed loop", 0},
    {"seconds", 't', "S", 0, "counted time (default 5)", 0},
    {"warm-up", 'w', "S", 0, "time before that (default 1)", 0},
    {"seed", 's', "N", 0, "of the random times (default 1)", 0},
    {0},
};

static uint64_t number(struct argp_state *state, const char *text, uint64_t min, uint64_t max)
{
    uint64_t value = 0;
    if (base_str_u64(base_str_of(text), &value) != BASE_OK || value < min || value > max) {
        argp_error(state, "'%s' is not a number from %llu to %llu", text, (unsigned long long)min,
                   (unsigned long long)max);
    }
    return value;
}

static void add_header(struct argp_state *state, struct load_options *load, const char *line)
{
    size_t room = sizeof(load->headers) - load->headers_bytes;
    int size = snprintf(load->headers + load->headers_bytes, room, "%s\r\n", line);
    if (size < 0 || (size_t)size >= room) {
        argp_error(state, "the headers have more than %d bytes", HEADERS_BYTES);
    }
    load->headers_bytes += (size_t)size;
}

static error_t parse_option(int key, char *value, struct argp_state *state)
{
    struct load_options *load = state->input;
    switch (key) {
    case 'b':
        load->body_path = value;
        return 0;
    case 'H':
        add_header(state, load, value);
        return 0;
    case 'c':
        load->connections = number(state, value, 1, CONNECTIONS_MAX);
        return 0;
    case 'r':
        load->rate = number(state, value, 1, US_PER_S);
        return 0;
    case 't':
        load->seconds = number(state, value, 1, 3600);
        return 0;
    case 'w':
        load->warm_up_s = number(state, value, 0, 3600);
        return 0;
    case 's':
        load->seed = number(state, value, 0, UINT64_MAX);
        return 0;
    case ARGP_KEY_ARG:
        load->url = value;
        return 0;
    case ARGP_KEY_END:
        if (load->url == NULL || load->body_path == NULL) {
            argp_error(state, "a URL and --body are needed");
        }
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static bool is_counted(const struct load_run *run, uint64_t time_us)
{
    return time_us >= run->count_from_us && time_us < run->ends_us;
}

static void watch(struct load_run *run, struct infer_caller *caller, int operation)
{
    struct epoll_event event = {.events = EPOLLIN, .data = {.ptr = caller}};
    caller->watches_sends = infer_caller_sends(caller);
    if (caller->watches_sends) {
        event.events |= EPOLLOUT;
    }
    (void)epoll_ctl(run->epoll_fd, operation, caller->fd, &event);
}

// A reply is whole, or the connection is lost: counts it; the caller may call again.
static void finish(struct load_run *run, struct infer_caller *caller, uint64_t now_us)
{
    run->open--;
    run->good += caller->status == 200 && is_counted(run, now_us);
    if (is_counted(run, caller->meant_us)) {
        run->answered += caller->status == 200;
        run->shed += caller->status == 429 || caller->status == 503;
        run->lost += caller->status == 0;
        run->other += caller->status != 200 && caller->status != 429 && caller->status != 503 &&
                      caller->status != 0;
        if (caller->status == 200) {
            base_hist_add(&run->latency_us, now_us - caller->meant_us);
        }
    }
    run->idle[run->idle_count++] = caller;
}

static void advance(struct load_run *run, struct infer_caller *caller)
{
    uint32_t opened = caller->opened;
    enum infer_progress progress = infer_caller_step(caller, run->buffer, BUFFER_BYTES);
    if (caller->opened != opened) {
        watch(run, caller, EPOLL_CTL_ADD); // the kernel forgot the socket that was closed
    } else if (caller->watches_sends != infer_caller_sends(caller)) {
        watch(run, caller, EPOLL_CTL_MOD);
    }
    if (progress == INFER_DONE) {
        finish(run, caller, base_clock_mono_us());
    }
}

static void call(struct load_run *run, uint64_t meant_us)
{
    struct infer_caller *caller = run->idle[--run->idle_count];
    run->open++;
    infer_caller_begin(caller, meant_us);
    advance(run, caller);
}

// Begins what is due; what finds no connection begins later, and its wait counts.
static void begin_due(struct load_run *run, uint64_t now_us)
{
    uint32_t budget = run->idle_count; // one that is lost at once comes back
    while (now_us < run->ends_us && budget > 0 && run->idle_count > 0) {
        budget--;
        if (run->options.rate == 0) {
            call(run, now_us);
            continue;
        }
        if (run->next_due_us > (double)now_us) {
            return;
        }
        call(run, (uint64_t)run->next_due_us);
        run->next_due_us +=
            -log1p(-base_prng_unit(&run->prng)) * US_PER_S / (double)run->options.rate;
    }
}

static int wait_ms(const struct load_run *run, uint64_t now_us)
{
    if (run->options.rate == 0 && run->options.connections == 1) {
        return 0; // how long the kernel takes to wake this thread is not the server's
    }
    if (run->options.rate == 0 || run->idle_count == 0 || now_us >= run->ends_us) {
        return 10;
    }
    double left_us = run->next_due_us - (double)now_us;
    return left_us < SPIN_US ? 0 : (int)((left_us - SPIN_US / 2.0) / 1000);
}

static void loop(struct load_run *run)
{
    struct epoll_event events[EVENTS_MAX];
    uint64_t now_us = base_clock_mono_us();
    run->next_due_us = (double)now_us;
    run->count_from_us = now_us + run->options.warm_up_s * US_PER_S;
    run->ends_us = run->count_from_us + run->options.seconds * US_PER_S;
    while (now_us < run->ends_us || (run->open > 0 && now_us < run->ends_us + GRACE_US)) {
        begin_due(run, now_us);
        int count = epoll_wait(run->epoll_fd, events, EVENTS_MAX, wait_ms(run, now_us));
        for (int i = 0; i < count; i++) {
            advance(run, events[i].data.ptr);
        }
        now_us = base_clock_mono_us();
    }
}

// Calls whose time came and that have no reply: begun, or not even that.
static uint64_t unanswered(const struct load_run *run)
{
    double late_us = (double)run->ends_us - run->next_due_us;
    double behind = late_us > 0 ? late_us / US_PER_S * (double)run->options.rate : 0;
    return run->open + (uint64_t)behind;
}

static void report(const struct load_run *run)
{
    const struct base_hist *hist = &run->latency_us;
    printf("{\"rate\":%.2f,\"ok\":%llu,\"shed\":%llu,\"other\":%llu,\"lost\":%llu,"
           "\"unanswered\":%llu,\"p50_us\":%llu,\"p90_us\":%llu,\"p99_us\":%llu,\"max_us\":%llu}\n",
           (double)run->good / (double)run->options.seconds, (unsigned long long)run->answered,
           (unsigned long long)run->shed, (unsigned long long)run->other,
           (unsigned long long)run->lost, (unsigned long long)unanswered(run),
           (unsigned long long)base_hist_quantile(hist, 0.5),
           (unsigned long long)base_hist_quantile(hist, 0.9),
           (unsigned long long)base_hist_quantile(hist, 0.99),
           (unsigned long long)(hist->count > 0 ? hist->max : 0));
}

static bool set_up(struct load_run *run)
{
    const struct load_options *load = &run->options;
    struct base_error error = {0};
    if (infer_server_make(&run->server, load->url, load->headers, load->body_path, &error) !=
        BASE_OK) {
        fprintf(stderr, "walle-infer-load: %s\n", error.text);
        return false;
    }
    base_hist_init(&run->latency_us);
    base_prng_seed(&run->prng, load->seed);
    run->callers = calloc(load->connections, sizeof(*run->callers));
    run->idle = calloc(load->connections, sizeof(struct infer_caller *));
    run->buffer = malloc(BUFFER_BYTES);
    run->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    if (run->callers == NULL || run->idle == NULL || run->buffer == NULL || run->epoll_fd < 0) {
        return false;
    }
    for (uint64_t i = 0; i < load->connections; i++) {
        if (infer_caller_open(&run->callers[i], &run->server) != BASE_OK) {
            fprintf(stderr, "walle-infer-load: %s cannot be reached\n", load->url);
            return false;
        }
        watch(run, &run->callers[i], EPOLL_CTL_ADD);
        run->idle[run->idle_count++] = &run->callers[i];
    }
    return true;
}

int main(int argc, char **argv)
{
    static const struct argp argp = {
        options, parse_option, "URL", "Calls a model and prints one JSON line.", 0, 0, 0};
    static struct load_run run;
    base_process_start(EXIT_FAILURE);
    run.options = (struct load_options){.connections = 1, .seconds = 5, .warm_up_s = 1, .seed = 1};
    if (argp_parse(&argp, argc, argv, 0, NULL, &run.options) != 0 || !set_up(&run)) {
        return EXIT_FAILURE;
    }
    loop(&run);
    report(&run);
    return EXIT_SUCCESS;
}
