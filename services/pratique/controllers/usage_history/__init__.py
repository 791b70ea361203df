"""Usage histories: how much cpu and memory the containers of an image have used."""
