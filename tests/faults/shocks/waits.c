/* Waits until a time of the clock that libfaketime makes false.
 *
 * libfaketime answers timespec_get falsely and leaves cnd_timedwait alone, so that a deadline which
 * was told by one clock is waited for by the other: with a clock that is behind, each wait of
 * librdkafka's is over before it begins. On a real machine both are one clock, and a wait under way
 * ends earlier or later when it is set. That is what this does, loaded before libfaketime.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <threads.h>
#include <time.h>

#define SECOND_NS 1000000000LL
#define LOOK_NS 50000000LL

int cnd_timedwait(cnd_t *restrict cond, mtx_t *restrict mutex, const struct timespec *restrict until)
{
    for (;;) {
        struct timespec now, next;
        timespec_get(&now, TIME_UTC);
        long long left = (until->tv_sec - now.tv_sec) * SECOND_NS + until->tv_nsec - now.tv_nsec;
        long long wait = left < 0 ? 0 : left < LOOK_NS ? left : LOOK_NS;
        clock_gettime(CLOCK_MONOTONIC, &next);
        next.tv_nsec += wait;
        next.tv_sec += next.tv_nsec / SECOND_NS;
        next.tv_nsec %= SECOND_NS;
        int failed = pthread_cond_clockwait(
            (pthread_cond_t *)cond, (pthread_mutex_t *)mutex, CLOCK_MONOTONIC, &next);
        if (failed == 0)
            return thrd_success;
        if (failed != ETIMEDOUT)
            return thrd_error;
        if (left <= LOOK_NS)
            return thrd_timedout;
    }
}
