/* A disk of one fixed sync latency, so that ratios under synchronous=FULL repeat on a shared machine.
 *
 * Preloaded into a process, it answers fsync and fdatasync by sleeping FSYNC_US microseconds; nothing reaches the
 * disk. Without FSYNC_US the calls go to the kernel as ever. A bad descriptor is refused either way.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static long latency_us = -1; /* below zero: off */

__attribute__((constructor)) static void read_latency(void)
{
    const char *text = getenv("FSYNC_US");
    char *end;

    if (text == NULL || *text == '\0')
        return;
    long value = strtol(text, &end, 10);
    if (*end == '\0' && value >= 0)
        latency_us = value;
}

/* From now on a sync takes so long; called by the benchmark, which times the processor first. */
void shardline_set_sync_us(long value)
{
    latency_us = value;
}

static int sync_in_name_only(int fd)
{
    struct timespec rest = {.tv_sec = latency_us / 1000000, .tv_nsec = latency_us % 1000000 * 1000};

    if (fcntl(fd, F_GETFD) == -1)
        return -1; /* errno is EBADF */
    while (nanosleep(&rest, &rest) == -1 && errno == EINTR)
        continue;
    return 0;
}

int fsync(int fd)
{
    return latency_us < 0 ? (int)syscall(SYS_fsync, fd) : sync_in_name_only(fd);
}

int fdatasync(int fd)
{
    return latency_us < 0 ? (int)syscall(SYS_fdatasync, fd) : sync_in_name_only(fd);
}
