"""The texts: the only room that holds sentences shown to a user, in Chinese and in English."""
