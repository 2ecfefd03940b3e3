/*
 * The least that a lease in PostgreSQL can cost, to compare with: it connects,
 * takes a row, runs a command, gives the row back.
 *
 *	minimal-pq URL NAME COMMAND...
 */
#include <sys/wait.h>

#include <libpq-fe.h>
#include <stdio.h>
#include <unistd.h>

#define TAKE \
    "INSERT INTO minimal AS m VALUES ('%s', 1, 'me'," \
    " clock_timestamp() + interval '60 s') ON CONFLICT (name) DO UPDATE SET" \
    " token = m.token + 1, owner = 'me'," \
    " expires_at = clock_timestamp() + interval '60 s'" \
    " WHERE m.owner IS NULL OR m.expires_at < clock_timestamp()" \
    " RETURNING token"
#define GIVE \
    "UPDATE minimal SET owner = NULL WHERE name = '%s' AND owner = 'me'"

int
main(int argc, char *argv[])
{
	PGconn *conn = PQconnectdb(argc < 4 ? "" : argv[1]);
	char take[1024], give[1024];
	PGresult *res;
	int status;
	pid_t pid;

	if (argc < 4 || PQstatus(conn) != CONNECTION_OK) {
		fputs(PQerrorMessage(conn), stderr);
		return 1;
	}
	snprintf(take, sizeof(take), TAKE, argv[2]);
	snprintf(give, sizeof(give), GIVE, argv[2]);
	res = PQexec(conn, take);
	if (PQntuples(res) != 1) {
		fputs(PQerrorMessage(conn), stderr);
		return 75;
	}
	PQclear(res);
	if ((pid = fork()) == 0) {
		execvp(argv[3], argv + 3);
		_exit(127);
	}
	if (pid == -1 || waitpid(pid, &status, 0) == -1)
		return 1;
	PQclear(PQexec(conn, give));
	PQfinish(conn);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}
