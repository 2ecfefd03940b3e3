/*
 * The least that a lease in PostgreSQL can cost, for bench-postgres.sh: it
 * connects, takes a row, runs a command, gives the row back.
 *
 *	minimal-pq URL COMMAND...
 */
#include <sys/wait.h>

#include <libpq-fe.h>
#include <stdio.h>
#include <unistd.h>

#define TAKE \
    "INSERT INTO minimal AS m VALUES ('job', 1, 'me'," \
    " clock_timestamp() + interval '60 s') ON CONFLICT (name) DO UPDATE SET" \
    " token = m.token + 1, owner = 'me'," \
    " expires_at = clock_timestamp() + interval '60 s'" \
    " WHERE m.owner IS NULL OR m.expires_at < clock_timestamp()" \
    " RETURNING token"
#define GIVE \
    "UPDATE minimal SET owner = NULL WHERE name = 'job' AND owner = 'me'"

int
main(int argc, char *argv[])
{
	PGconn *conn = PQconnectdb(argc < 3 ? "" : argv[1]);
	PGresult *res;
	int status;
	pid_t pid;

	if (PQstatus(conn) != CONNECTION_OK) {
		fputs(PQerrorMessage(conn), stderr);
		return 1;
	}
	res = PQexec(conn, TAKE);
	if (PQntuples(res) != 1) {
		fputs(PQerrorMessage(conn), stderr);
		return 75;
	}
	PQclear(res);
	if ((pid = fork()) == 0) {
		execvp(argv[2], argv + 2);
		_exit(127);
	}
	if (pid == -1 || waitpid(pid, &status, 0) == -1)
		return 1;
	PQclear(PQexec(conn, GIVE));
	PQfinish(conn);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}
