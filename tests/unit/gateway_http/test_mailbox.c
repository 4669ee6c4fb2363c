// Every message posted by several threads runs once, in its poster's order, and waking is not lost.
#include "http/loop/mailbox.h"

#include "test_kit.h"

#include <poll.h>
#include <pthread.h>

#define POSTERS  4
#define MESSAGES 20000

struct note {
    struct gw_message message;
    uint32_t poster;
    uint32_t number;
};

static struct gw_mailbox mailbox;
static uint32_t expected[POSTERS];

static void run_note(struct gw_message *message)
{
    struct note *note = (struct note *)message;
    assert_int_equal(note->number, expected[note->poster]);
    expected[note->poster]++;
    free(note);
}

static void *post_many(void *ctx)
{
    for (uint32_t i = 0; i < MESSAGES; i++) {
        struct note *note = malloc(sizeof(*note));
        assert_non_null(note);
        *note =
            (struct note){.message = {.run = run_note}, .poster = *(uint32_t *)ctx, .number = i};
        gw_mailbox_post(&mailbox, &note->message);
    }
    return NULL;
}

static void test_nothing_is_lost(void **state)
{
    (void)state;
    assert_int_equal(gw_mailbox_init(&mailbox), BASE_OK);
    pthread_t threads[POSTERS];
    uint32_t posters[POSTERS];
    for (uint32_t i = 0; i < POSTERS; i++) {
        posters[i] = i;
        assert_int_equal(pthread_create(&threads[i], NULL, post_many, &posters[i]), 0);
    }
    uint32_t ran = 0;
    while (ran < POSTERS * MESSAGES) {
        struct pollfd wait = {.fd = mailbox.wake_fd, .events = POLLIN};
        assert_int_equal(poll(&wait, 1, 60000), 1); // else a wake-up was lost
        ran += gw_mailbox_run(&mailbox);
    }
    for (uint32_t i = 0; i < POSTERS; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
        assert_int_equal(expected[i], MESSAGES);
    }
    assert_int_equal(gw_mailbox_run(&mailbox), 0);
    gw_mailbox_done(&mailbox);
}

static uint32_t reposts;

static void run_repost(struct gw_message *message)
{
    if (++reposts < 3) {
        gw_mailbox_post(&mailbox, message);
    }
}

static void test_a_message_posted_by_a_message_runs_next_time(void **state)
{
    (void)state;
    struct gw_message message = {.run = run_repost};
    assert_int_equal(gw_mailbox_init(&mailbox), BASE_OK);
    gw_mailbox_post(&mailbox, &message);
    for (uint32_t i = 1; i <= 3; i++) {
        struct pollfd wait = {.fd = mailbox.wake_fd, .events = POLLIN};
        assert_int_equal(poll(&wait, 1, 0), 1);
        assert_int_equal(gw_mailbox_run(&mailbox), 1);
        assert_int_equal(reposts, i);
    }
    gw_mailbox_done(&mailbox);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nothing_is_lost),
        cmocka_unit_test(test_a_message_posted_by_a_message_runs_next_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
