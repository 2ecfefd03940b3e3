/*
 * Keys of --once and --once-per.  Periods are counted in UTC from the epoch.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "name.h"
#include "once.h"
#include "timeutil.h"

/* "1d@2026-11-29T00:00:00Z", with milliseconds where the period has some. */
static void
period_key(int64_t period_ms, int64_t unix_ms, char *text, size_t size)
{
	int64_t start = unix_ms - unix_ms % period_ms;
	time_t seconds = (time_t)(start / 1000);
	char length[32], date[32], fraction[8] = "";
	struct tm tm;

	duration_format(period_ms * NS_PER_MS, length, sizeof(length));
	gmtime_r(&seconds, &tm);
	strftime(date, sizeof(date), "%Y-%m-%dT%H:%M:%S", &tm);
	if (period_ms % 1000 != 0)
		snprintf(fraction, sizeof(fraction), ".%03d",
		    (int)(start % 1000));
	snprintf(text, size, "%s@%s%sZ", length, date, fraction);
}

bool
once_key(const struct conf *conf, int64_t unix_ms, char key[LEASERUN_KEY_SIZE],
    char shown[ONCE_SHOWN_SIZE])
{
	if (conf->once != NULL)
		snprintf(shown, ONCE_SHOWN_SIZE, "%s", conf->once);
	else if (conf->once_per != 0)
		period_key(conf->once_per / NS_PER_MS, unix_ms, shown,
		    ONCE_SHOWN_SIZE);
	else
		return false;
	return name_encode(shown, key, LEASERUN_KEY_SIZE) == NULL;
}

int64_t
once_keep(const struct conf *conf)
{
	return time_later(conf->once_keep, 2 * conf->once_per);
}
