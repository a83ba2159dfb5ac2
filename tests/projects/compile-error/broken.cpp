int answer() { return forty_two; }
