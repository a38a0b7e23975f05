"""The collectives of Communicator: on one array, on several, and as requests."""
