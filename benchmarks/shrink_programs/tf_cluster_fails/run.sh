bash start.sh
